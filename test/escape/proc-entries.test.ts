// The entries of /proc that boxes of programs have: those on the list, read-only, and nothing else
// of the host's /proc, whatever is tried; each with its control.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { exited } from './support/cases.ts';
import { MODES, type PlanOptions, TestWarden } from './support/warden.ts';

const ROOT = 'cpuinfo filesystems loadavg meminfo stat uptime version';
const SYS = `fs/file-max fs/inotify/max_user_instances fs/inotify/max_user_watches fs/nr_open
  fs/pipe-max-size kernel/cap_last_cap kernel/ngroups_max kernel/osrelease kernel/ostype
  kernel/overflowgid kernel/overflowuid kernel/pid_max kernel/random/uuid kernel/threads-max
  net/core/somaxconn vm/max_map_count vm/mmap_min_addr vm/overcommit_memory`;
const ENTRIES = [...ROOT.split(' '), ...SYS.split(/\s+/).map((name) => `sys/${name}`)].filter(
  (name) => existsSync(`/proc/${name}`),
);

/** Entries of the host that are not about processes. */
const HOST_ENTRIES = readdirSync('/proc').filter(
  (name) => !/^(\d+|self|thread-self)$/.test(name) && !ENTRIES.includes(name) && name !== 'sys',
);

const sh = (script: string) => ['/bin/sh', '-c', script];
const lines = (text: string) => text.split('\n').filter((line) => line !== '');

for (const mode of MODES) {
  describe(`entries of /proc, as ${mode}`, { timeout: 120_000 }, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    after(() => warden.stop());
    const run = async (script: string, more: Partial<PlanOptions> = {}) =>
      exited(await warden.run(sh(script), { procEntries: true, ...more }));

    it('those on the list are there, with what the host has', async () => {
      const script = ENTRIES.map((name) => `cat /proc/${name} > /dev/null && echo ${name}`);
      assert.deepEqual(lines((await run(script.join('\n'))).stdout), ENTRIES);
      const same = ['sys/kernel/overflowuid', 'sys/kernel/osrelease', 'version', 'filesystems'];
      const { stdout } = await run(same.map((name) => `cat /proc/${name}`).join(';'));
      assert.equal(stdout, same.map((name) => readFileSync(`/proc/${name}`, 'utf8')).join(''));
      assert.match((await run('nproc; free; uptime; ps -e')).stdout, /Mem:/);
    });

    it('no other entry of the host is reached, by name or by search', async () => {
      assert.ok(HOST_ENTRIES.length > 10, HOST_ENTRIES.join());
      const tries = `for name in ${HOST_ENTRIES.join(' ')}; do
        for path in /proc/$name /proc/self/../$name /proc/self/root/proc/$name; do
          { test -e $path || test -L $path || ls -d $path || head -c 1 $path; } > /dev/null 2>&1 &&
            echo $name
        done
      done
      find /proc -mindepth 1 -maxdepth 1 -name '[!0-9]*' -printf '%f\\n' | sort
      find /proc/sys -type f -printf 'sys/%P\\n' | sort`;
      const seen = lines((await run(tries)).stdout);
      const sys = ENTRIES.filter((name) => name.startsWith('sys/')).toSorted();
      assert.deepEqual(seen, ['self', 'thread-self', ...sys]);
      const control = await run(tries, { guardsOff: ['procSubset'] });
      const found = new Set(lines(control.stdout));
      for (const name of HOST_ENTRIES) assert.ok(found.has(name), `control: ${name}`);
    });

    it('they cannot be written, removed, moved or uncovered', async () => {
      const { stdout } = await run(`
        for file in ${ENTRIES.map((name) => `/proc/${name}`).join(' ')}; do
          { echo 1 > $file; } 2>/dev/null && echo wrote $file
          rm -f $file 2>/dev/null && echo removed $file
          mv $file /tmp/x 2>/dev/null && echo moved $file
        done
        mkdir /proc/sys/new 2>/dev/null && echo made a directory
        umount /proc/sys 2>/dev/null && echo uncovered sys
        umount -l /proc/meminfo 2>/dev/null && echo uncovered meminfo
        mount -t proc proc /tmp 2>/dev/null && echo mounted another
        mount -o remount,subset= /proc 2>/dev/null && echo changed the options
        grep ' /proc' /proc/self/mountinfo`);
      const mounts = lines(stdout);
      const [proc, ...pinned] = mounts;
      assert.match(proc ?? '', / \/proc rw,nosuid,nodev,noexec\S* .* rw,hidepid=\w+,subset=pid$/);
      assert.equal(pinned.length, ENTRIES.length + 1);
      for (const line of pinned) assert.match(line, / \/proc\/\S+ ro,nosuid,nodev,noexec/);
    });

    it('commands in an open box have them, and other boxes have none', async () => {
      const script = 'cat /proc/sys/kernel/overflowuid; ls /proc | grep -c interrupts';
      const open = await warden.open({ procEntries: true });
      assert.equal(exited(await warden.exec(open.box, sh(script))).stdout, '65534\n0\n');
      open.client.close();
      const without = await run('ls /proc | grep -v "^[0-9]"; test -e /proc/meminfo || echo none', {
        procEntries: false,
      });
      assert.equal(without.stdout, 'self\nthread-self\nnone\n');
    });

    it('a box whose /proc still shows the rest does not start', async () => {
      const outcome = await warden.run(['/bin/true'], {
        procEntries: true,
        guardsOff: ['procSubset', 'silent'],
      });
      assert.ok(outcome.kind === 'refused', outcome.kind);
      assert.match(outcome.message, /hiding entries of \/proc did not take effect/);
    });

    it('are not for level 1, nor for runners', async () => {
      for (const more of [{ level: 1 }, { profile: 'runner' as const }]) {
        const outcome = await warden.run(['/bin/true'], { procEntries: true, ...more });
        assert.ok(outcome.kind === 'refused', outcome.kind);
        assert.match(outcome.message, /entries of \/proc need level 2/);
      }
    });
  });
}
