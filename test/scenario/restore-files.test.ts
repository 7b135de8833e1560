// The files of task trees in a backup: they come back with their owners, and a run goes on with
// them; where they are newer than the record, people are asked before they are changed again. A
// restore that is interrupted, or of a damaged backup, leaves nothing that starts.
import assert from 'node:assert/strict';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { sha256Hex } from '../../src/platform/json.ts';
import {
  type BackupDocument,
  contentOf,
  ctl,
  ctlJson,
  finished,
  flipByte,
  forgeManifest,
  startCtl,
} from '../support/backups.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { manifestOf, openWait, scriptedModels } from '../support/scripted-world.ts';

const LINES = 40;
const coder = {
  replicas: 2,
  tools: { allow: ['file.read', 'file.write_workspace', 'shell.exec'] },
};

describe('the files of restored tasks', () => {
  const base = freshDir();
  const dir = join(base, 'backup');
  let model: ScriptedModel;
  let runtime: TestRuntime;
  before(async () => {
    model = await startScriptedModel();
    model.on(
      'wait',
      says(call('file.write', { path: 'a.txt', text: 'one\n' })),
      says(call('person.ask', { question: 'Go on?' })),
      says(call('shell.exec', { command: 'echo two >> a.txt; cat a.txt' })),
      ({ results }) => finishes(results.at(-1)!),
    );
    model.on('append', ({ step }) =>
      step < LINES
        ? says(call('shell.exec', { command: `echo line-${step} >> lines` }))
        : finishes('done'),
    );
    runtime = await startRuntime({
      base,
      agents: { coder: manifestOf('coder', JSON.stringify(coder)) },
      config: JSON.stringify({ modeld: scriptedModels(model.url) }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });

  const create = async (goal: string) =>
    (await runtime.agentd.createTask({ body: { goal, agent: 'coder' } })).task.id;
  const backUp = async () => (await ctlJson<BackupDocument>(runtime, ['backup', dir])).backup;
  const wipeAndRestore = async () => {
    await runtime.stop();
    rmSync(runtime.stateDir, { recursive: true });
    await ctlJson(runtime, ['restore', dir]);
    runtime = await runtime.restart();
  };
  const ownerOf = (path: string) => {
    const { uid, gid, mode } = statSync(path);
    return { uid, gid, mode };
  };

  it('come back as they were, and the run goes on with them, without a question', async () => {
    const id = await create('wait');
    const question = await openWait(runtime, id, 'question');
    const tree = join(runtime.stateDir, 'workspaces', id);
    symlinkSync('/etc/passwd', join(tree, 'link'));
    // Long enough ago to be older than the backup.
    await new Promise((resolve) => setTimeout(resolve, 300));
    const paths = [tree, join(tree, 'a.txt')];
    const before = paths.map(ownerOf);
    const { changed_trees } = await backUp();
    assert.deepEqual(changed_trees, []);
    await wipeAndRestore();
    assert.deepEqual(paths.map(ownerOf), before);
    assert.equal(readlinkSync(join(tree, 'link')), '/etc/passwd');
    await runtime.agentd.answerWait({ params: { id: question.id }, body: { answer: 'yes' } });
    const ended = await taskEnded(runtime, id);
    assert.equal(ended.status, 'completed', JSON.stringify(ended.error));
    assert.match(ended.result!, /one\\ntwo\\n/);
    const { waits } = await runtime.agentd.listWaits({ query: { task_id: id } });
    assert.equal(waits.length, 1, 'nobody was asked');
  });

  it('that are newer than the record are not changed again without asking', async () => {
    const id = await create('append');
    const file = () => join(runtime.stateDir, 'workspaces', id, 'lines');
    await eventually('some lines', async () =>
      existsSync(file()) && readFileSync(file(), 'utf8').split('\n').length > 5 ? true : undefined,
    );
    const { changed_trees } = await backUp();
    assert.ok(changed_trees.includes(`workspaces/${id}`), changed_trees.join());
    await wipeAndRestore();
    let asked = 0;
    await eventually(
      'its end',
      async () => {
        const query = { status: 'open', kind: 'question' } as const;
        for (const wait of (await runtime.agentd.listWaits({ query })).waits) {
          const { call: made } = await runtime.toold.getCall({ params: { id: wait.call_id! } });
          const line = /line-\d+/.exec(String(made.arguments.command))![0];
          const isThere = readFileSync(file(), 'utf8').split('\n').includes(line);
          const answer = isThere ? 'it happened' : 'it did not happen';
          await runtime.agentd.answerWait({ params: { id: wait.id }, body: { answer } });
          asked++;
        }
        const { task } = await runtime.agentd.getTask({ params: { id } });
        return task.ended_at === null ? undefined : true;
      },
      120_000,
    );
    assert.ok(asked > 0);
    const lines = readFileSync(file(), 'utf8').trim().split('\n');
    const expected = Array.from({ length: LINES }, (_, n) => `line-${n}`);
    assert.deepEqual(lines, expected, 'each once');
  });
});

/** Belongs to running processes, or changes with every start. */
const OF_ONE_START = new RegExp(
  '^((runtime|supervisor)\\.json|.*\\.(lock(-journal)?|tmp)|.*\\.sqlite.*|(logs|runners|snapshots).*|' +
    'audit/(audit|checkpoint|tree|verified).*)$',
);

/** Each path below a directory with its mode, its owner and the hash of its content. */
function describeFiles(dir: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const path of readdirSync(dir, { recursive: true, encoding: 'utf8' }).sort()) {
    if (OF_ONE_START.test(path)) continue;
    const { mode, uid, gid } = lstatSync(join(dir, path));
    const isFile = (mode & 0o170000) === 0o100000;
    const content = isFile ? sha256Hex(readFileSync(join(dir, path))) : '';
    found.set(path, `${mode.toString(8)} ${uid}:${gid} ${content}`);
  }
  return found;
}

describe('a restore', () => {
  const base = freshDir();
  const dir = join(base, 'backup');
  let runtime: TestRuntime;
  let backup: BackupDocument['backup'];
  before(async () => {
    runtime = await startRuntime({ base });
    for (let n = 0; n < 200; n++)
      await runtime.agentd.putArtifact({
        body: { name: `${n}`, mime_type: 'text/plain', text: `${n} `.repeat(5_000) },
      });
    ({ backup } = await ctlJson<BackupDocument>(runtime, ['backup', dir]));
    await runtime.stop();
  });
  after(() => rmSync(base, { recursive: true, force: true }));

  const restore = (from = dir) => ctl(runtime, ['restore', from]);
  const wipe = () => rmSync(runtime.stateDir, { recursive: true, force: true });
  const copyBackup = (): string => {
    const copy = join(base, 'copy');
    rmSync(copy, { recursive: true, force: true });
    cpSync(dir, copy, { recursive: true });
    return copy;
  };

  it('brings back every key and file, with its mode and owner', async () => {
    runtime = await runtime.restart();
    const before = describeFiles(runtime.stateDir);
    await runtime.stop();
    for (const name of ['operator.key', 'approvald.key', 'audit/keys/signing.pem', 'VERSION'])
      assert.match(before.get(name) ?? 'missing', /^100600 /, name);
    const own = join(base, 'own');
    await ctlJson(runtime, ['backup', own]);
    wipe();
    // As on a disk of its own.
    mkdirSync(join(runtime.stateDir, 'lost+found'), { recursive: true, mode: 0o700 });
    await ctlJson(runtime, ['restore', own]);
    rmSync(join(runtime.stateDir, 'lost+found'), { recursive: true });
    runtime = await runtime.restart();
    const found = describeFiles(runtime.stateDir);
    await runtime.stop();
    assert.deepEqual(found, before);
  });

  it('is refused where there is something already', async () => {
    const refused = await restore();
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /is not empty \(conflict\)/);
    assert.ok(existsSync(join(runtime.stateDir, 'agentd.sqlite')), 'which is left as it is');
  });

  const damage: Record<string, (copy: string) => void> = {
    'an artifact': (copy) => flipByte(contentOf(copy, /^objects\//)),
    'a database': (copy) => flipByte(contentOf(copy, 'toold.sqlite')),
    'a segment of the log': (copy) => flipByte(contentOf(copy, 'audit/audit.jsonl')),
    'the manifest': (copy) => flipByte(join(copy, 'backups', `${backup.id}.jsonl`), 0.3),
    'a missing key': (copy) => rmSync(contentOf(copy, 'operator.key')),
  };
  for (const [what, change] of Object.entries(damage))
    it(`of a backup with damage is refused, and nothing is written: ${what}`, async () => {
      wipe();
      const copy = copyBackup();
      change(copy);
      const refused = await restore(copy);
      assert.equal(refused.code, 70, refused.stderr);
      assert.match(refused.stderr, /is damaged: .*\(storage_broken\)/);
      assert.equal(existsSync(runtime.stateDir), false);
    });

  it('of a manifest that leads outside is refused', async () => {
    wipe();
    const copy = copyBackup();
    const manifest = join(copy, 'backups', `${backup.id}.jsonl`);
    forgeManifest(manifest, '"path":"VERSION"', '"path":"../VERSION"');
    const refused = await restore(copy);
    assert.equal(refused.code, 70, refused.stderr);
    assert.match(refused.stderr, /a path that is not inside/);
    assert.equal(existsSync(join(base, 'VERSION')), false);
    forgeManifest(manifest, '"path":"../VERSION"', '"path":"VERSION"');
    assert.equal((await restore(copy)).code, 0, 'forged back, it is accepted');
  });

  it('of a backup without the hash that was kept elsewhere is refused', async () => {
    wipe();
    const pinned = (hash: string) => ctl(runtime, ['restore', dir, '--manifest', hash]);
    const refused = await pinned('0'.repeat(64));
    assert.equal(refused.code, 70, refused.stderr);
    assert.match(refused.stderr, /is another one: the hash of its manifest is/);
    assert.equal(existsSync(runtime.stateDir), false);
    assert.equal((await pinned(backup.manifest_sha256)).code, 0);
  });

  it('that was killed is known as unfinished, and starts over', async () => {
    wipe();
    let unfinished = 0;
    for (let round = 0; round < 12; round++) {
      const child = startCtl(runtime, ['restore', dir]);
      const ended = finished(child);
      await eventually('its first step', async () =>
        existsSync(join(runtime.stateDir, 'restoring.json')) || child.exitCode !== null
          ? true
          : undefined,
      );
      await new Promise((resolve) => setTimeout(resolve, round * 5));
      child.kill('SIGKILL');
      await ended;
      if (!existsSync(join(runtime.stateDir, 'restoring.json'))) {
        wipe();
        continue;
      }
      unfinished++;
      if (unfinished > 1) continue;
      await assert.rejects(runtime.restart(), { code: 'storage_broken' });
      assert.ok(existsSync(join(runtime.stateDir, 'restoring.json')));
    }
    assert.ok(unfinished > 0, 'some were killed in the middle');
    wipe();
    mkdirSync(runtime.stateDir, { mode: 0o700 });
    writeFileSync(join(runtime.stateDir, 'restoring.json'), '{}\n');
    writeFileSync(join(runtime.stateDir, 'agentd.sqlite'), 'half');
    assert.equal((await restore()).code, 0);
    runtime = await runtime.restart();
    const { artifacts } = await runtime.agentd.listArtifacts({ query: { limit: 500 } });
    assert.equal(artifacts.length, 200);
    await runtime.stop();
  });

  it('reads a tar file from a pipe', async () => {
    runtime = await runtime.restart();
    const { bytes } = await ctl(runtime, ['backup', '-']);
    await runtime.stop();
    wipe();
    const cut = await ctl(runtime, ['restore', '-'], { stdin: bytes.subarray(0, 500_000) });
    assert.deepEqual([cut.code, existsSync(runtime.stateDir)], [2, false], cut.stderr);
    const whole = await ctl(runtime, ['restore', '-'], { stdin: bytes });
    assert.equal(whole.code, 0, whole.stderr);
    const left = readdirSync(base).filter((name) => name.includes('unpacked'));
    assert.deepEqual(left, []);
    runtime = await runtime.restart();
    const { artifacts } = await runtime.agentd.listArtifacts({ query: { limit: 500 } });
    assert.equal(artifacts.length, 200);
    await runtime.stop();
  });
});
