// Artifacts: a record that points to a blob stored once by its hash, visible in its own thread and
// to tasks that got it as an input. A result too large for a context becomes an artifact.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { type ArtifactView, agentdRoutes, type TaskInput } from '../../src/wire/agentd.ts';
import { type IdleWorld, startIdleWorld } from '../support/callers.ts';
import { eventually } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  doTask,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

describe('artifacts', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ toold: { result_size_bytes_max: 4_096 } });
  });
  after(() => world.stop());

  const read = (goal: string, id: string) => {
    world.model.on(goal, says(call('artifact.get', { id })), ({ results }) =>
      finishes(results.join()),
    );
    return goal;
  };
  const artifactsOf = async (taskId: string): Promise<ArtifactView[]> =>
    (await world.agentd.listArtifacts({ query: { task_id: taskId as never } })).artifacts;

  it('[K93] [K94] [R306] [R467] an agent stores an artifact: a record with creator, task and labels, and the blob under its hash', async () => {
    const text = 'The answer, written down.\n';
    world.model.on(
      'Write it down',
      says(
        call('artifact.put', { name: 'answer.md', mime_type: 'text/markdown', text }),
        call('artifact.put', { name: 'copy.md', mime_type: 'text/markdown', text }),
        call('artifact.put', { name: 'dot.png', mime_type: 'image/png', base64: 'iVBORw0KGgo=' }),
      ),
      ({ results }) => {
        const { id } = JSON.parse(results[0]!) as { id: string };
        return finishes('written', { artifacts: [id] });
      },
    );
    const task = await doTask(world, 'Write it down', { agent: 'coder' });
    const list = await artifactsOf(task.id);
    assert.equal(list.length, 3);
    const answer = list.find(({ name }) => name === 'answer.md')!;
    assert.equal(answer.ref, `artifact://${answer.id}`);
    assert.equal(task.result_ref, answer.ref);
    assert.equal(answer.created_by, 'agent:coder');
    assert.equal(answer.context_id, task.context_id);
    assert.equal(answer.size_bytes, Buffer.byteLength(text));
    assert.equal(answer.object_hash, sha256(text));
    assert.ok(answer.labels.includes('agent') && answer.labels.includes('person'));
    assert.equal(list.find(({ name }) => name === 'copy.md')?.object_hash, answer.object_hash);
    const objects = join(world.stateDir, 'objects');
    const files = globSync('**/*', { cwd: objects }).filter((path) => path.includes(sha256(text)));
    assert.equal(files.length, 1, 'the same bytes are stored once');
    assert.equal(readFileSync(join(objects, files[0]!), 'utf8'), text);
    const content = await world.agentd.getArtifact({ params: { id: answer.id }, query: {} });
    assert.equal(content.text, text);
    const png = list.find(({ name }) => name === 'dot.png')!;
    const bytes = await world.agentd.getArtifact({ params: { id: png.id }, query: {} });
    assert.deepEqual([bytes.text, bytes.base64], [null, 'iVBORw0KGgo=']);
  });

  it('another thread may not read an artifact unless it got it as an input', async () => {
    world.model.on(
      'Keep a secret',
      says(call('artifact.put', { name: 's', text: 'psst' })),
      finishes('ok'),
    );
    const keeper = await doTask(world, 'Keep a secret', { agent: 'coder' });
    const [artifact] = await artifactsOf(keeper.id);
    const stranger = await doTask(world, read('Pry', artifact!.id), { agent: 'researcher' });
    assert.match(stranger.result ?? '', /another thread.*\(denied\)/);
    const given = await doTask(world, read('Accept', artifact!.ref), {
      agent: 'researcher',
      inputs: [{ kind: 'artifact_ref', id: artifact!.id }],
    });
    assert.match(given.result ?? '', /psst/);
    const same = await doTask(world, read('Look again', artifact!.id), {
      agent: 'researcher',
      context_id: keeper.context_id,
    });
    assert.match(same.result ?? '', /psst/);
    const read_ = await eventually('it in the log', async () => {
      const query = { limit: 500 };
      const { events } = await world.audit.task({ params: { task_id: given.id }, query });
      return events.find(({ event }) => event === 'artifact.read');
    });
    assert.equal(read_.artifact, artifact!.id);
  });

  it('a delegated task gets the artifacts passed to it, but none that the delegating agent may not read', async () => {
    const { artifact } = await world.agentd.putArtifact({
      body: { name: 'plan.txt', text: 'dig' },
    });
    const pass = (goal: string) =>
      world.model.on(
        goal,
        says(
          call('task.delegate', {
            agent: 'coder',
            goal: read('Open the parcel', artifact.id),
            inputs: [{ kind: 'artifact_ref', id: artifact.id }],
          }),
        ),
        ({ results }) => finishes(results.join()),
      );
    pass('Pass it on');
    const whole = await doTask(world, 'Pass it on', {
      agent: 'planner',
      inputs: [{ kind: 'artifact_ref', id: artifact.id }],
    });
    assert.match(whole.result ?? '', /dig/);
    pass('Pass on what is not mine');
    const thief = await doTask(world, 'Pass on what is not mine', { agent: 'planner' });
    assert.doesNotMatch(thief.result ?? '', /dig/);
    assert.match(thief.result ?? '', /another thread/);
  });

  it('a task with a missing input is not started', async () => {
    const unknown = `artifact_${'0'.repeat(26)}`;
    const giving = (input: TaskInput) => doTask(world, 'Never begun', { inputs: [input] });
    await refusedWith('not_found', giving({ kind: 'artifact_ref', id: unknown }));
    await refusedWith('bad_request', giving({ kind: 'text' }));
    await refusedWith('bad_request', giving({ kind: 'memory_ref', id: 'mem_1' }));
    await refusedWith('bad_request', giving({ kind: 'memory_ref' }));
    world.model.on(
      'Hand on nothing',
      says(
        ...[
          { kind: 'artifact_ref', id: unknown },
          { kind: 'memory_ref', id: 'mem_1' },
        ].map((input) =>
          call('task.delegate', { agent: 'coder', goal: 'Never begun', inputs: [input] }),
        ),
      ),
      ({ results }) => finishes(results.join()),
    );
    const task = await doTask(world, 'Hand on nothing', { agent: 'planner' });
    assert.match(task.result ?? '', /artifact .* not found.*mem_1 is not the id of a memory/);
    assert.deepEqual((await world.agentd.getTree({ params: { id: task.id } })).tree.children, []);
  });

  it('[R96] a result too large to show becomes an artifact with a preview', async () => {
    const long = 'lorem '.repeat(2_000);
    world.model.on('Echo a lot', says(call('test.echo', { text: long })), ({ results }) =>
      finishes(results.join()),
    );
    const task = await doTask(world, 'Echo a lot', { agent: 'coder' });
    const shown = JSON.parse(task.result!) as {
      artifact: string;
      size_bytes: number;
      preview: string;
    };
    assert.ok(shown.preview.length < 2_100);
    const [artifact] = await artifactsOf(task.id);
    assert.equal(shown.artifact, artifact?.ref);
    const { text } = await world.agentd.getArtifact({ params: { id: artifact!.id }, query: {} });
    assert.equal((JSON.parse(text!) as { text: string }).text, long);
  });

  it('a long final result is stored as an artifact, and the task shows its beginning', async () => {
    const long = 'ipsum '.repeat(10_000);
    world.model.on('Write a book', finishes(long));
    const task = await doTask(world, 'Write a book', { agent: 'coder' });
    assert.ok(task.result!.length < 40_000);
    assert.match(task.result ?? '', /the whole result is artifact:\/\//);
    const id = task.result_ref!.slice('artifact://'.length) as ArtifactView['id'];
    assert.equal((await world.agentd.getArtifact({ params: { id }, query: {} })).text, long);
    await refusedWith(
      'not_found',
      world.agentd.getArtifact({
        params: { id: `artifact_${'0'.repeat(26)}` as typeof id },
        query: {},
      }),
    );
  });
});

describe('a disk with only the reserve for the runtime left', () => {
  let quiet: IdleWorld;
  before(async () => {
    quiet = await startIdleWorld({ agentd: { disk_reserve_bytes: 2 ** 50 } });
  });
  after(() => quiet.stop());

  it('refuses an agent’s artifact and accepts a person’s', async () => {
    const socketPath = socketPathFor(quiet.runtimeDir, 'agentd', 'peer-toold');
    const toold = makeClient(agentdRoutes, socketLink({ socketPath }));
    const artifact = { name: 'a.txt', text: 'some' };
    const { id: run_id, fence, callId } = quiet.someRun;
    const body = { run_id, fence, call_id: callId(1), artifact };
    await refusedWith('storage_full', toold.toolPutArtifact({ body }));
    const { artifact: mine } = await quiet.agentd.putArtifact({ body: artifact });
    assert.equal(mine.size_bytes, 4);
  });
});
