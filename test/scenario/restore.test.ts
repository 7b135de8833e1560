// A runtime is backed up under load, wiped and restored: journal and log are equal one to one,
// every task goes on where it was, and no effect that happened after the backup is repeated.
import assert from 'node:assert/strict';
import { closeSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findBackup } from '../../src/clients/agentctl/backup/backup-dir.ts';
import { openDir } from '../../src/clients/agentctl/backup/state-tree.ts';
import { lockState } from '../../src/clients/agentctl/backup/stopped-state.ts';
import { verifyLog } from '../../src/daemons/auditd-ai/log/verify.ts';
import { startHttp, type WirePosition } from '../../src/daemons/egressd/testing/wires.ts';
import type { WaitView } from '../../src/wire/agentd.ts';
import { type BackupDocument, ctl, ctlJson } from '../support/backups.ts';
import { allEvents, assertReconciled } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  writableFile,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { manifestOf, scriptedModels } from '../support/scripted-world.ts';

const IS_ROOT = process.getuid?.() === 0;
const NOBODY = 65_534;
const HOST = 'good.test';
const HAPPENED = 'it happened';
const DID_NOT_HAPPEN = 'it did not happen';
const EFFECTS = 4;

/** A runtime whose effects are counted where no backup reaches: in a file, and by a server. */
class World {
  runtime!: TestRuntime;
  readonly base = freshDir();
  readonly dir = join(this.base, 'backup');
  readonly uid: number | undefined;
  readonly #effectFile = writableFile(join(this.base, 'effects'));
  readonly #seen: string[] = [];
  #web!: WirePosition;
  #model!: ScriptedModel;
  /** Questions about what happened, by their text. */
  questions: string[] = [];

  constructor(uid?: number) {
    this.uid = uid;
  }

  async start(mode: 'embedded' | 'split'): Promise<void> {
    this.#web = await startHttp((request, response) => {
      this.#seen.push(request.url!.slice(1));
      response.end('done');
    });
    this.#model = await startScriptedModel();
    for (const kind of ['count', 'careful', 'post', 'ask'])
      this.#model.on(kind, ({ goal, step }) => this.#script(kind, goal.split(' ')[1]!, step));
    const tools = ['test.tools', 'http.fetch', 'network.external'];
    const host = `${HOST}:${this.#web.port}`;
    const network = { mode: 'restricted', allow: [host], change: { [host]: ['POST'] } };
    const open = { replicas: 4, tools: { allow: tools }, network };
    const careful = { ...open, approvals: { required: ['test.count_effect'] } };
    this.runtime = await startRuntime({
      base: this.base,
      mode,
      agents: {
        worker: manifestOf('worker', JSON.stringify(open)),
        careful: manifestOf('careful', JSON.stringify(careful)),
      },
      config: JSON.stringify({
        agentd: { runs_live_max: 4 },
        toold: { test_tools: true, test_effect_file: this.#effectFile },
        modeld: scriptedModels(this.#model.url),
        egressd: { hosts: { [HOST]: '127.0.0.1' }, allow_private: [`${HOST}:${this.#web.port}`] },
      }),
      ...(this.uid === undefined ? {} : { uid: this.uid }),
    });
  }

  #script(kind: string, key: string, step: number) {
    const delayMs = 30;
    if (kind === 'ask' && step === 0) return says(call('person.ask', { question: 'Go on?' }));
    const n = kind === 'ask' ? step - 1 : step;
    if (n >= EFFECTS) return finishes(`did ${key}`);
    const effect = `${key}-${n}`;
    const url = `http://${HOST}:${this.#web.port}/${effect}`;
    return kind === 'post'
      ? { ...says(call('http.fetch', { url, method: 'POST', body: 'x' })), delayMs }
      : { ...says(call('test.count_effect', { key: effect })), delayMs };
  }

  /** Every effect, once for each time that it happened. */
  effects(): string[] {
    const lines = readFileSync(this.#effectFile, 'utf8').split('\n');
    return [...lines.filter((line) => line !== ''), ...this.#seen];
  }

  /** Decides like a person who looks before answering. */
  async answerAll(): Promise<void> {
    const { agentd, approvald, toold } = this.runtime;
    const pending = await approvald.listApprovals({ query: { status: 'pending' } });
    for (const { id } of pending.approvals) {
      const { approval } = await approvald.getApproval({ params: { id } });
      const body = { for: 'once', nonce: approval.nonce } as const;
      await approvald.approve({ params: { id }, body }).catch(() => undefined);
    }
    const query = { status: 'open', kind: 'question', limit: 100 } as const;
    for (const wait of (await agentd.listWaits({ query })).waits) {
      const body = { answer: await this.#answerFor(wait, toold) };
      await agentd.answerWait({ params: { id: wait.id }, body }).catch(() => undefined);
    }
  }

  async #answerFor(wait: WaitView, toold: TestRuntime['toold']): Promise<string> {
    if (!wait.choices.includes(HAPPENED)) return 'yes';
    this.questions.push(wait.question!);
    const { call: asked } = await toold.getCall({ params: { id: wait.call_id! } });
    const { key, url } = asked.arguments as { key?: string; url?: string };
    const effect = key ?? new URL(url!).pathname.slice(1);
    return this.effects().includes(effect) ? HAPPENED : DID_NOT_HAPPEN;
  }

  async finishAll(): Promise<void> {
    await eventually(
      'every task to end',
      async () => {
        await this.answerAll();
        const { tasks } = await this.runtime.agentd.status({});
        const open = ['blocked', 'ready', 'working', 'waiting'] as const;
        return open.every((status) => (tasks[status] ?? 0) === 0) ? true : undefined;
      },
      180_000,
    );
  }

  /** The daemons of a killed runtime end a moment after it, and would write to what is new. */
  async wipe(): Promise<void> {
    const { stateDir } = this.runtime;
    await eventually('every daemon to be gone', async () => {
      const fd = openDir(stateDir);
      try {
        lockState(stateDir, fd).release();
        return true;
      } finally {
        closeSync(fd);
      }
    });
    rmSync(stateDir, { recursive: true });
  }

  async restore(...words: string[]): Promise<void> {
    await ctlJson(this.runtime, ['restore', this.dir, ...words], { uid: this.uid });
    this.runtime = await this.runtime.restart();
  }

  async stop(): Promise<void> {
    await this.runtime.remove();
    await this.#model.close();
    await this.#web.close();
  }
}

const WORLDS = [
  ['embedded', undefined],
  ['split', undefined],
  ...(IS_ROOT ? [['embedded', NOBODY] as const] : []),
] as const;

for (const [mode, uid] of WORLDS)
  for (const lost of ['nothing', 'everything'] as const)
    describe(`restored ${mode}${uid === undefined ? '' : ', by a user'}, ${lost} was done since`, () => {
      const world = new World(uid);
      let original: string[] = [];
      let backup: BackupDocument['backup'];
      const keys: string[] = [];
      before(() => world.start(mode));
      after(() => world.stop());

      it('is backed up while tasks work, wait for people and are asked about', async () => {
        const kinds = ['count', 'careful', 'post', 'ask'];
        for (let n = 0; n < 12; n++) {
          const [kind, key] = [kinds[n % 4]!, `k${n}`];
          const agent = kind === 'careful' ? 'careful' : 'worker';
          await world.runtime.agentd.createTask({ body: { goal: `${kind} ${key}`, agent } });
          for (let i = 0; i < EFFECTS; i++) keys.push(`${key}-${i}`);
        }
        await eventually('work in progress', async () => {
          await world.answerAll();
          return world.effects().length >= 10 ? true : undefined;
        });
        ({ backup } = await ctlJson<BackupDocument>(world.runtime, ['backup', world.dir], { uid }));
        if (lost === 'everything') await world.finishAll();
        else await world.answerAll();
        original = (await allEvents(world.runtime)).map((event) => JSON.stringify(event));
        assert.ok(original.length >= backup.events);
        await world.runtime.kill();
        const isAllDone = world.effects().length === keys.length;
        assert.equal(isAllDone, lost === 'everything', 'the rest is done, or left');
        await world.wipe();
      });

      if (uid !== undefined)
        it('is not restored as root, nor by a user with files of others in it', async () => {
          const { stateDir } = world.runtime;
          const refused = async (as: number | undefined, why: RegExp) => {
            const { code, stderr } = await ctl(world.runtime, ['restore', world.dir], { uid: as });
            assert.equal(code, 2, stderr);
            assert.match(stderr, why);
            assert.equal(existsSync(stateDir), false);
          };
          await refused(undefined, /made by an ordinary user \(uid 65534\)/);
          const { file } = findBackup(world.dir, backup.id);
          const text = readFileSync(file, 'utf8');
          writeFileSync(file, text.replace(`"owners":[${uid}]`, `"owners":[7,${uid}]`));
          await refused(uid, /has files of several users/);
          writeFileSync(file, text);
        });

      it('goes on where it was, and does nothing twice [R442]', async () => {
        world.questions = [];
        await world.restore();
        await world.finishAll();
        const { tasks } = await world.runtime.agentd.listTasks({ query: { limit: 100 } });
        const failed = tasks.filter(({ status }) => status !== 'completed');
        assert.deepEqual(
          failed.map(({ goal, error }) => [goal, error]),
          [],
        );
        assert.equal(tasks.length, 12);
        assert.deepEqual(world.effects().sort(), keys.sort(), 'each effect happened once');
        const since = `backup of ${backup.taken_at}`;
        assert.ok(
          world.questions.some((text) => text.includes(since)),
          'people were asked',
        );
      });

      it('has a log that begins as it did, says where it was restored, and fits the journals', async () => {
        const found = await eventually('journals and log to agree', async () => {
          await assertReconciled(world.runtime);
          return allEvents(world.runtime);
        });
        const now = found.map((event) => JSON.stringify(event));
        assert.deepEqual(now.slice(0, backup.events), original.slice(0, backup.events));
        const restored = found.filter(({ event }) => event === 'runtime.restored');
        assert.equal(restored.length, 1);
        const { data } = restored[0]!;
        assert.deepEqual(
          [data?.backup, data?.taken_at, data?.events, data?.manifest_sha256],
          [backup.id, backup.taken_at, backup.events, backup.manifest_sha256],
        );
        await world.runtime.stop();
        const kept = findBackup(world.dir, backup.id);
        assert.ok(kept.isFinished);
        const from = [kept.header.checkpoint.note];
        const report = await verifyLog({ dir: join(world.runtime.stateDir, 'audit'), from });
        assert.deepEqual([report.ok, report.problems], [true, []]);
      });

      it('does not say so again at the next start', async () => {
        world.runtime = await world.runtime.restart();
        const { events } = await world.runtime.audit.events({
          query: { event: 'runtime.restored', limit: 10 },
        });
        assert.equal(events.length, 1);
        assert.equal(existsSync(join(world.runtime.stateDir, 'restored.json')), false);
      });
    });

describe('a restored runtime that is halted', () => {
  const world = new World();
  before(() => world.start('embedded'));
  after(() => world.stop());

  it('starts nothing until a person lifts the halt', async () => {
    const { agentd } = world.runtime;
    const { task } = await agentd.createTask({ body: { goal: 'ask k0', agent: 'worker' } });
    await eventually('the question', async () =>
      (await agentd.listWaits({ query: { status: 'open' } })).waits.length > 0 ? true : undefined,
    );
    await ctlJson(world.runtime, ['backup', world.dir]);
    await world.runtime.stop();
    await world.wipe();
    await world.restore('--halted');
    assert.equal((await world.runtime.agentd.status({})).halted, true);
    await world.answerAll();
    const now = await world.runtime.agentd.getTask({ params: { id: task.id } });
    assert.notEqual(now.task.status, 'completed');
    assert.equal((await ctl(world.runtime, ['unhalt'])).code, 0);
    await world.finishAll();
    assert.equal(world.effects().length, EFFECTS);
  });
});
