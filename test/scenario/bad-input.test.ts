// Bad input from people, files, clocks and providers gets a clear error, nothing is lost, and the
// runtime still works afterwards.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import type { Fault } from '../../src/wire/errors.ts';
import type { Message } from '../../src/wire/modeld.ts';
import type { FileProblem, TaskId } from '../../src/wire/primitives.ts';
import { callSocket } from '../support/callers.ts';
import { type InProcessWorld, startWorld } from '../support/in-process.ts';
import { eventually, startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';

const manifest = (name: string, spec = '{}') =>
  `apiVersion: agentd/v1\nkind: Agent\nmetadata:\n  name: ${name}\n  description: Is told.\nspec: ${spec}\n`;

async function assertWorks(runtime: InProcessWorld | TestRuntime, agent: string): Promise<void> {
  const { task } = await runtime.agentd.createTask({ body: { goal: 'Go on as usual', agent } });
  const ended = await taskEnded(runtime, task.id);
  assert.equal(ended.status, 'completed', JSON.stringify(ended.error));
}

describe('[R39] manifests that are invalid, duplicated or misspelled', () => {
  let world: InProcessWorld;
  const fileOf = (name: string) => join(dirname(world.stateDir), 'agents', name);
  const write = (name: string, text: string) => writeFileSync(fileOf(name), text);
  const problems = async () => (await world.agentd.listAgents({})).problems;
  const names = async () =>
    (await world.agentd.listAgents({})).agents
      .filter(({ status }) => status === 'active')
      .map(({ name }) => name);
  const problemIn = (file: string) =>
    eventually(`a problem in ${file}`, async () => {
      world.clock.advance(6_000);
      return (await problems()).find((found: FileProblem) => found.file.endsWith(file));
    });

  before(async () => {
    world = await startWorld({
      agents: {
        good: manifest('good'),
        other: manifest('other'),
        broken: `${manifest('broken')}  - no: [`,
        misspelt: manifest('misspelt').replace('description', 'descripton'),
        unknown: manifest('unknown', '{ limits: { maxStep: 3 } }'),
        twice: `${manifest('twice')}kind: Agent\n`,
        typed: manifest('typed', '{ replicas: many }'),
      },
    });
  });
  after(() => world.stop());

  it('are each reported with file, line and hint, and the others load', async () => {
    assert.deepEqual(await names(), ['good', 'other']);
    const expected: [string, number, RegExp, RegExp][] = [
      ['broken.yaml', 7, /./, /YAML/],
      ['misspelt.yaml', 5, /unknown key metadata\.descripton/, /description/],
      ['unknown.yaml', 6, /unknown key spec\.limits\.maxStep/, /maxSteps/],
      ['twice.yaml', 7, /./, /YAML/],
      ['typed.yaml', 6, /replicas/, /./],
    ];
    for (const [file, line, message, hint] of expected) {
      const found = (await problems()).filter((one) => one.file.endsWith(file));
      assert.ok(found.length > 0, `${file} is named`);
      assert.equal(found[0]!.line, line, `${file}: ${JSON.stringify(found[0])}`);
      assert.match(found[0]!.message, message);
      assert.match(found[0]!.hint, hint);
    }
    await assertWorks(world, 'good');
  });

  it('that become invalid leave the old one in effect and are reported', async () => {
    write('other.yaml', manifest('other', '{ replicas: 0.5 }'));
    const problem = await problemIn('other.yaml');
    assert.equal(problem.line, 6);
    assert.match(problem.hint, /other stays as it was/);
    assert.ok((await names()).includes('other'));
    await assertWorks(world, 'other');
    write('other.yaml', manifest('other', '{ replicas: 2 }'));
    await eventually('the mended one', async () => {
      world.clock.advance(6_000);
      const { agent } = await world.agentd.getAgent({ params: { name: 'other' } });
      return agent.replicas === 2 ? true : undefined;
    });
  });

  it('that declare an agent a second time are reported, and the first stays', async () => {
    write('zz-copy.yaml', manifest('good', '{ replicas: 9 }'));
    const problem = await problemIn('zz-copy.yaml');
    assert.match(problem.message, /good is already declared by .*good\.yaml/);
    const { agent } = await world.agentd.getAgent({ params: { name: 'good' } });
    assert.equal(agent.replicas, 4);
    await assertWorks(world, 'good');
  });

  it('that are huge, deeply nested, binary or not a file have no effect on others', async () => {
    write('huge.yaml', 'x'.repeat(2_000_000));
    write('deep.yaml', `a: ${'['.repeat(50_000)}`);
    write('shadow.yaml', manifest('shadow', '{ replicas: { toString: 1, valueOf: 1 } }'));
    writeFileSync(fileOf('binary.yaml'), Buffer.from([0xff, 0xfe, 0, 1, 2, 3]));
    mkdirSync(fileOf('folder.yaml'));
    for (const file of ['huge.yaml', 'deep.yaml', 'shadow.yaml', 'binary.yaml'])
      await problemIn(file);
    await assertWorks(world, 'good');
  });

  it('sent by a person are rejected with the line, and nothing changes', async () => {
    const yaml = manifest('good', '{ limits: { maxStep: 3 } }');
    const put = world.agentd.putAgent({ params: { name: 'good' }, body: { manifest_yaml: yaml } });
    await assert.rejects(put, (error: Fault) => {
      assert.equal(error.code, 'bad_manifest');
      assert.match(error.message, /line 6: unknown key spec\.limits\.maxStep/);
      assert.match(error.hint, /maxSteps/);
      return true;
    });
    await assertWorks(world, 'good');
  });
});

describe('invalid requests', () => {
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime();
  });
  after(() => runtime.remove());

  const refused = (body: object, code: string, message: RegExp) =>
    assert.rejects(runtime.agentd.createTask({ body: body as never }), (error: Fault) => {
      assert.equal(error.code, code);
      assert.match(error.message, message);
      assert.ok(error.hint.length > 10);
      return true;
    });

  it('are rejected with the problem and what to do, and create nothing', async () => {
    const before = (await runtime.agentd.listTasks({ query: {} })).tasks.length;
    await refused({ goal: 'x'.repeat(1_000_000) }, 'bad_request', /goal: must be at most 64 KiB/);
    await refused({ goal: 'x'.repeat(10_000_000) }, 'too_large', /larger than/);
    await refused({ goal: 3 }, 'bad_request', /goal/);
    await refused({ goal: '' }, 'bad_request', /goal: must not be empty/);
    await refused({ goal: 'x', gaol: 'y' }, 'bad_request', /unknown key gaol/);
    await refused({ goal: 'x', agent: 'nobody' }, 'not_found', /agent nobody not found/);
    const strange = `task_${'0'.repeat(26)}` as TaskId;
    await refused({ goal: 'x', after: [strange] }, 'not_found', new RegExp(strange));
    await assert.rejects(runtime.agentd.getTask({ params: { id: strange } }), {
      code: 'not_found',
    });
    await assert.rejects(runtime.agentd.getTask({ params: { id: 'x' as never } }), {
      code: 'bad_request',
    });
    let deep: unknown = 1;
    for (let i = 0; i < 100; i++) deep = [deep];
    await refused({ goal: 'x', inputs: deep }, 'too_deep', /64 levels/);
    const operator = socketPathFor(runtime.runtimeDir, 'agentd', 'operator');
    const headers = { authorization: `Bearer ${runtime.operatorKey}` };
    const text = Buffer.from('{"goal":"caf\xe9"}', 'latin1');
    const latin = await callSocket(operator, agentdRoutes.createTask, { text }, { headers });
    assert.equal(latin.ok ? 'taken' : latin.code, 'bad_json');
    assert.equal((await runtime.agentd.listTasks({ query: {} })).tasks.length, before);
    await assertWorks(runtime, 'coder');
  });

  it('a task for a paused agent is refused with the command to resume it', async () => {
    const named = { goal: 'x', agent: 'researcher' };
    const forPlanner = { goal: 'x' };
    for (const [name, body] of [
      ['researcher', named],
      ['planner', forPlanner],
    ] as const) {
      await runtime.agentd.pauseAgent({ params: { name } });
      await assert.rejects(runtime.agentd.createTask({ body }), (error: Fault) => {
        assert.equal(error.code, 'agent_paused');
        assert.equal(error.message, `agent ${name} is paused`);
        assert.equal(error.hint, `agentctl resume ${name}`);
        return true;
      });
      await runtime.agentd.resumeAgent({ params: { name } });
    }
    await assertWorks(runtime, 'researcher');
  });

  it('a dependency cycle is rejected, and its tasks continue', async () => {
    const { task: whole } = await runtime.agentd.createTask({
      body: { goal: 'Please ask a person first', agent: 'planner' },
    });
    const part = { goal: 'A part', agent: 'coder', parent_task_id: whole.id, after: [whole.id] };
    await assert.rejects(runtime.agentd.createTask({ body: part }), (error: Fault) => {
      assert.equal(error.code, 'cycle');
      assert.match(error.message, new RegExp(whole.id));
      return true;
    });
    const { task } = await runtime.agentd.getTask({ params: { id: whole.id } });
    assert.equal(task.ended_at, null);
    await runtime.agentd.cancelTask({ params: { id: whole.id }, body: {} });
  });
});

describe('a clock that jumps back', () => {
  let world: InProcessWorld;
  before(async () => {
    world = await startWorld();
  });
  after(() => world.stop());

  it('by an hour during work: work continues, ids still sort, waits end when due', async () => {
    const body = { goal: 'Please ask a person which region, then answer', agent: 'planner' };
    const { task: before } = await world.agentd.createTask({ body });
    const wait = await eventually('the question', async () => {
      const query = { status: 'open' as const, kind: 'question' as const, task_id: before.id };
      return (await world.agentd.listWaits({ query })).waits[0];
    });
    world.clock.advance(-3_600_000);
    await assertWorks(world, 'coder');
    const { tasks } = await world.agentd.listTasks({ query: { agent: 'coder' } });
    assert.ok(tasks[0]!.id > before.id, 'later ids sort later');
    await world.agentd.answerWait({ params: { id: wait.id }, body: { answer: 'eu-west' } });
    const ended = await taskEnded(world, before.id);
    assert.equal(ended.status, 'completed', JSON.stringify(ended.error));
    world.clock.advance(7_200_000);
    await assertWorks(world, 'coder');
    const { events } = await world.audit.events({ query: { limit: 1000 } });
    assert.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, i) => i),
    );
  });
});

/** Defective responses of a provider. */
const FAULTY: Record<string, (response: http.ServerResponse) => void> = {
  malformed: (response) => void response.end('{"choices": [{"message": '),
  'no answer': (response) => void response.end('{"hello": "there"}'),
  'cut off': (response) => {
    response.write('{"id": "x", "choices": [');
    setTimeout(() => response.destroy(), 20);
  },
  endless: (response) => {
    const piece = `"${'x'.repeat(60_000)}",`;
    const more = (): void => {
      while (!response.destroyed && response.write(piece));
      response.once('drain', more);
    };
    response.write('{"choices": [');
    more();
  },
  html: (response) => void response.end('<html>Bad gateway</html>'),
};

describe('[R98] providers with defective responses', () => {
  let runtime: TestRuntime;
  let server: http.Server;
  let play = 'malformed';
  before(async () => {
    server = http.createServer((request, response) => {
      request.resume();
      request.on('end', () => {
        response.writeHead(200, { 'content-type': 'application/json' });
        FAULTY[play]!(response);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    // One provider for each, so that failures of one do not open the circuit of the next.
    const providers = Object.keys(FAULTY).map(
      (_, i) =>
        `p${i}: { dialect: openai, base_url: "http://127.0.0.1:${port}/v1", models: [m${i}] }`,
    );
    runtime = await startRuntime({
      config: `modeld: { providers: { ${providers.join(', ')} } }\n`,
    });
  });
  after(async () => {
    await runtime.remove();
    server.close();
    server.closeAllConnections();
  });

  const messages: Message[] = [{ role: 'user', parts: [{ type: 'text', text: 'hello' }] }];
  for (const [i, name] of Object.keys(FAULTY).entries()) {
    it(`${name}: a fault names the provider, and nothing stays reserved`, async () => {
      play = name;
      const generated = runtime.modeld.generate({ body: { model: `m${i}`, messages } });
      await assert.rejects(generated, (error: Fault) => {
        assert.ok(['provider_malformed', 'provider_down'].includes(error.code), error.code);
        assert.match(error.message, /provider/);
        return true;
      });
      const { budgets } = await runtime.modeld.listBudgets({});
      for (const one of budgets) assert.equal(one.tokens_reserved, 0, JSON.stringify(one));
      assert.equal((await runtime.agentd.status({})).halted, false);
    });
  }

  it('the record has the outcome of each', async () => {
    const { calls } = await runtime.modeld.listCalls({ query: {} });
    assert.equal(calls.length, Object.keys(FAULTY).length);
    for (const call of calls) {
      assert.equal(call.status, 'failed');
      assert.ok(call.error !== null && call.ended_at !== null);
    }
  });
});
