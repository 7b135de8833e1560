// Boxes that ask for the host itself, hosts where root lacks capabilities, and settings that would
// turn enforcement into logging.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { agentdConfig } from '../../src/daemons/agentd/config.ts';
import { approvaldConfig } from '../../src/daemons/approvald/config.ts';
import { egressdConfig } from '../../src/daemons/egressd/config.ts';
import type { Bind } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { sandboxdConfig } from '../../src/daemons/sandboxd/config.ts';
import { boxBinds } from '../../src/daemons/sandboxd/rules.ts';
import { tooldConfig } from '../../src/daemons/toold/config.ts';
import { loadCedar } from '../../src/policy/cedar.ts';
import { checkSiteFile } from '../../src/policy/site.ts';
import { exited } from './support/cases.ts';
import { IS_ROOT, MODES, TestWarden } from './support/warden.ts';

const HOST = ['/proc', '/sys', '/sys/fs/cgroup', '/dev', '/run', '/boot', '/root', '/etc'];

for (const mode of MODES) {
  describe(`a box that asks for the host, as ${mode}`, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    after(() => warden.stop());
    const bind = (src: string, kind: Bind['kind'] = 'ro'): Bind => ({ kind, src, dst: '/x' });
    const sh = async (script: string) => exited(await warden.run(['/bin/sh', '-c', script]));

    it('C22 does not get its processes, devices, cgroups, sockets or root', async () => {
      for (const src of HOST.filter(existsSync)) {
        for (const kind of ['ro', 'rw'] as const) {
          const outcome = await warden.run(['/bin/true'], { binds: [bind(src, kind)] });
          assert.ok(outcome.kind === 'refused', `${src} ${JSON.stringify(outcome)}`);
          assert.equal(outcome.code, 'bounds', src);
        }
      }
      const control = await warden.run(['/bin/true'], { binds: [bind(warden.outside)] });
      assert.equal(exited(control).code, 0, 'control: an allowed path is mounted');
    });
    it('C22 has no writable release agent and no writable kernel setting', async () => {
      const tries = [
        'find /dev /proc /sys /run /tmp -name release_agent 2>/dev/null | grep .',
        'find /dev /proc /sys /run /tmp -name cgroup.procs 2>/dev/null | grep .',
        'echo "|/evil" > /proc/sys/kernel/core_pattern',
        'echo x > /proc/sysrq-trigger',
        'cat /proc/1/root/etc/shadow',
      ];
      for (const script of tries) assert.notEqual((await sh(script)).code, 0, script);
      assert.equal((await sh('find /proc -name status 2>/dev/null | grep .')).code, 0, 'control');
    });
    it('E12 has no devices for virtual machines or file systems', async () => {
      const listed = await sh('ls /dev');
      const names = listed.stdout.trim().split('\n');
      for (const name of ['kvm', 'fuse', 'vhost-net', 'vhost-vsock', 'mem', 'loop-control', 'net'])
        assert.ok(!names.includes(name), name);
      assert.ok(names.includes('null') && names.includes('urandom'), 'control');
    });
  });
}

describe('sandboxd with such rules', () => {
  it('C22 mounts none of the host’s own trees, whatever the agent’s rules allow', () => {
    const places = { system: [], workspace: '/w', home: '/h', homeAt: '/home/a', secrets: [] };
    const own = ['/proc', '/proc/1/root', '/sys/fs/cgroup', '/dev', '/run/docker.sock', '/'];
    const rules = { read: own, write: own, deny: [] };
    assert.deepEqual(boxBinds(rules, places, () => true).binds, []);
    const fine = { read: ['/srv/docs'], write: [], deny: [] };
    assert.equal(boxBinds(fine, places, () => true).binds.length, 1, 'control');
  });
});

describe('root without all capabilities', () => {
  const withoutRight = async (right: string) => {
    const drop = `-${right}`;
    const wrap = ['setpriv', `--bounding-set=${drop}`, `--inh-caps=${drop}`, '--'];
    const warden = new TestWarden({ mode: 'root', wrap });
    try {
      await warden.start();
      return await warden.run(['/bin/sh', '-c', 'grep CapEff /proc/self/status']);
    } catch (error) {
      return { kind: 'refused' as const, code: 'start', message: String(error), hint: '' };
    } finally {
      await warden.stop();
    }
  };
  for (const right of ['setfcap', 'sys_admin', 'setuid', 'setgid', 'setpcap'])
    it(`F3 without ${right} a box is complete or refused with the reason`, async (t) => {
      if (!IS_ROOT) return t.skip('only root can take rights from root');
      const outcome = await withoutRight(right);
      if (outcome.kind === 'exit') {
        assert.equal(outcome.stdout, 'CapEff:\t0000000000000000\n', JSON.stringify(outcome));
        return;
      }
      assert.ok(outcome.kind === 'refused', JSON.stringify(outcome));
      assert.notEqual(outcome.message, '', right);
    });
});

describe('logging instead of enforcing', () => {
  it('F6 no daemon setting turns enforcement into logging', () => {
    const sections = { agentdConfig, approvaldConfig, egressdConfig, sandboxdConfig, tooldConfig };
    for (const [name, schema] of Object.entries(sections)) {
      assert.ok(schema.safeParse({}).success, `control: ${name}`);
      for (const key of ['mode', 'enforce', 'audit_only', 'permissive', 'dry_run', 'policy'])
        for (const value of ['audit', false, true])
          assert.ok(!schema.safeParse({ [key]: value }).success, `${name} ${key}`);
    }
  });
  it('F6 no annotation turns enforcement into logging: a rule file with one is rejected', async () => {
    const rule = 'forbid (principal, action == Action::"file.write", resource);\n';
    const cedar = await loadCedar();
    const check = (text: string) =>
      checkSiteFile(cedar, { file: 'a.cedar', text }, { agents: [], nearest: () => undefined })
        .problems;
    assert.deepEqual(check(rule), [], 'control');
    for (const note of ['@mode("audit")', '@audit("yes")', '@disabled("true")', '@enforce("no")'])
      assert.notDeepEqual(check(`${note} ${rule}`), [], note);
  });
});
