// A runtime under its supervisor: whichever of its processes is killed, work continues without an
// operator; down stops it at any time.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Installation, makeInstallation, type ProcessName } from '../support/installation.ts';
import { isAlive } from '../support/processes.ts';
import { allEvents, assertReconciled } from '../support/reconcile.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

const IS_ROOT = process.getuid?.() === 0;
const ORDINARY = IS_ROOT ? 61_200 : undefined;
const CONFIG = 'agentd: { crashes_max: 100000 }\ntoold: { test_tools: true }\n';

const kinds = [
  { who: 'an ordinary user', mode: 'embedded', uid: ORDINARY, skip: false },
  { who: 'an ordinary user', mode: 'split', uid: ORDINARY, skip: false },
  { who: 'root', mode: 'embedded', uid: undefined, skip: IS_ROOT ? false : 'needs root' },
  { who: 'root', mode: 'split', uid: undefined, skip: IS_ROOT ? false : 'needs root' },
] as const;

for (const { who, mode, uid, skip } of kinds)
  describe(`restarts as ${who}, ${mode}`, { skip }, () => {
    let site: Installation;
    before(async () => {
      site = makeInstallation({ mode, uid, config: CONFIG, agents: TEAM });
      await site.up();
    });
    after(() => site.remove());

    const only = (name: ProcessName): Promise<number> =>
      eventually(`one ${name}`, async () => {
        const pids = site.pids(name);
        return pids.length === 1 ? pids[0] : undefined;
      });
    const kill = async (name: ProcessName): Promise<number> => {
      const pid = await only(name);
      process.kill(pid, 'SIGKILL');
      return pid;
    };
    const back = (restarts: number) =>
      eventually('it to run again', async () => {
        const { restarts: count, state } = site.supervisor()!;
        if (count !== restarts || state !== 'running') return undefined;
        return site.clients().agentd.status({});
      });
    /** Creates a task that takes two seconds. */
    const begin = async () => {
      const body = { goal: 'slow 2000 ms', agent: 'coder' };
      return (await site.clients().agentd.createTask({ body })).task.id;
    };
    const ends = async (id: string) =>
      assert.equal((await taskEnded(site.clients(), id)).status, 'completed');

    const victims: ProcessName[] = who === 'root' ? ['main', 'keeper'] : ['main'];
    for (const [i, name] of victims.entries())
      it(`kill -9 of ${name}: it is restarted, and the task in progress continues`, async () => {
        const id = await begin();
        const before = await only('main');
        const leftBehind = [...site.pids('auditd-ai'), ...site.pids('warden')];
        await kill(name);
        await back(i + 1);
        assert.notEqual(await only('main'), before);
        for (const pid of leftBehind) assert.ok(!isAlive(pid), 'nothing of the first is left');
        await ends(id);
        const started = (await allEvents(site.clients())).findLast(
          ({ event }) => event === 'runtime.started',
        );
        assert.equal(started?.data?.restarts, i + 1);
        assert.equal(started?.data?.after, 'signal 9');
        const { last } = site.supervisor()!;
        assert.equal(last?.reason, 'signal 9');
        assert.match(await site.ctl('status'), /restarts +\d restarts? after a crash/);
      });

    it('kill -9 of the warden does not restart the runtime', async () => {
      const { restarts } = site.supervisor()!;
      const id = await begin();
      const before = await kill('warden');
      await eventually('another warden', async () =>
        site.pids('warden').some((pid) => pid !== before) ? true : undefined,
      );
      await ends(id);
      assert.equal(site.supervisor()!.restarts, restarts);
    });

    it('a halt stays in force across a restart', async () => {
      const { restarts } = site.supervisor()!;
      const id = await begin();
      await site.ctl('halt', '--reason', 'to see');
      await kill('main');
      const { halted, halt_reason } = await back(restarts + 1);
      assert.deepEqual([halted, halt_reason], [true, 'to see']);
      const { task } = await site.clients().agentd.getTask({ params: { id } });
      assert.equal(task.status, 'ready');
      await site.ctl('unhalt');
      await ends(id);
    });

    it('a second up during a restart is refused', async () => {
      const { restarts } = site.supervisor()!;
      await kill('main');
      const ran = await eventually('a refusal', async () => {
        const second = await site.run('up');
        return second.code === 1 ? second : undefined;
      });
      assert.match(ran.stderr, /is in use/);
      await back(restarts + 1);
    });

    it('kill -9 of the supervisor: the runtime keeps working, and down stops it', async () => {
      const pid = await kill('supervisor');
      await eventually('its end', async () => (isAlive(pid) ? undefined : true));
      const id = await begin();
      await ends(id);
      assert.match(await site.ctl('status'), /the supervisor \(pid \d+\) has died/);
      const main = await only('main');
      await site.ctl('down');
      assert.ok(!isAlive(main));
      await site.up();
      assert.doesNotMatch(await site.ctl('status'), /has died/);
    });

    it('down between two starts stops the restarts', async () => {
      const file = join(site.stateDir, 'agentd.yaml');
      writeFileSync(file, 'agentd: { unknown: 1 }\n');
      await kill('main');
      await eventually('some refusals', async () => {
        const { restarts, last } = site.supervisor()!;
        return restarts >= 3 && last?.reason === 'exit status 78' ? true : undefined;
      });
      await site.ctl('down');
      const names = ['supervisor', 'keeper', 'main', 'warden', 'auditd-ai'] as const;
      assert.deepEqual(names.flatMap(site.pids), []);
      writeFileSync(file, CONFIG);
      await site.up();
      await ends(await begin());
    });

    it('journal and log are equal afterwards', async () => {
      await eventually('the journals to be told', () => assertReconciled(site.clients()));
      await site.ctl('down');
      await site.ctl('audit', 'verify');
    });
  });
