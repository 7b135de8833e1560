// A provider's key exists in modeld and in one private file. The test searches everywhere else:
// every file of the state, every log, every response, every environment and command line.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import { finishes, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts';
import { create, doTask, scriptedModels, TEAM } from '../support/scripted-world.ts';

const FILED = 'sk-filed-5f0c6b1e2d3a4958';
const TYPED = 'sk-typed-91b7aa02cc31d0e4';

describe('keys', () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  const base = freshDir();
  const keyFile = join(base, 'provider.key');
  const recorded: unknown[] = [];
  before(async () => {
    model = await startScriptedModel();
    writeFileSync(keyFile, `${FILED}\n`, { mode: 0o600 });
    const modeld = scriptedModels(model.url);
    const providers = { scripted: { ...modeld.providers.scripted, key_file: keyFile } };
    runtime = await startRuntime({
      base,
      mode: 'split',
      agents: TEAM,
      config: JSON.stringify({ modeld: { ...modeld, providers } }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
    rmSync(base, { recursive: true, force: true });
  });

  /** This process's descendants: the supervisor, the daemons, the runners. */
  const runtimePids = (): number[] => {
    const parents = new Map<number, number>();
    for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
      } catch {
        // It has ended meanwhile.
      }
    }
    const isOurs = (pid: number | undefined): boolean =>
      pid !== undefined && (pid === runtime.process.pid || isOurs(parents.get(pid)));
    return [...parents.keys()].filter(isOurs);
  };
  const keep = async <T>(work: Promise<T>): Promise<T | undefined> => {
    try {
      const value = await work;
      recorded.push(value);
      return value;
    } catch (error) {
      recorded.push(error, (error as { cause?: unknown }).cause, (error as Error).stack);
      return undefined;
    }
  };

  it('[C78] [R98] the key reaches the provider, and no process but modeld has it', async () => {
    model.on('Use the key', { hang: true });
    const task = await create(runtime, 'Use the key', { agent: 'coder' });
    const scene = await eventually('the model call', async () => model.scenesFor('Use the key')[0]);
    assert.equal(scene.headers.authorization, `Bearer ${FILED}`);
    const pids = runtimePids();
    assert.ok(pids.length >= 6, 'a supervisor, four daemons and a runner');
    const read = (file: string): string | undefined => {
      try {
        return readFileSync(file, 'latin1');
      } catch {
        return undefined; // It has ended meanwhile.
      }
    };
    let looked = 0;
    for (const pid of pids) {
      for (const file of ['environ', 'cmdline']) {
        const text = read(`/proc/${pid}/${file}`);
        if (text === undefined) continue;
        looked++;
        assert.ok(!text.includes(FILED), `/proc/${pid}/${file} has the key`);
      }
    }
    assert.ok(looked >= 12, `${looked} were looked at`);
    await runtime.agentd.cancelTask({ params: { id: task.id }, body: {} });
    await taskEnded(runtime, task.id);
  });

  it('[R98] a provider that repeats the key in its errors does not leak it', async () => {
    model.on('Blab', { status: 401, text: `Incorrect API key provided: ${FILED}` });
    model.on('Blab in words', finishes(`I was called with ${FILED.slice(0, 8)}…`));
    const task = await keep(doTask(runtime, 'Blab', { agent: 'coder' }));
    assert.equal(task?.error?.code, 'provider_auth');
    assert.match(task?.error?.message ?? '', /agentctl model test/);
    await keep(
      runtime.modeld.generate({
        body: {
          model: 'default',
          messages: [{ role: 'user', parts: [{ type: 'text', text: 'Blab' }] }],
        },
      }),
    );
    await keep(runtime.modeld.testModel({ body: { name: 'scripted' } }));
    await keep(runtime.modeld.listModels({}));
    await keep(runtime.modeld.listCalls({ query: {} }));
    await keep(runtime.audit.events({ query: { limit: 1_000 } }));
  });

  it('[C39] [R98] a key entered by an operator is stored in a private file and never returned', async () => {
    const ran = await agentctl(
      [
        'model',
        'add',
        'mine',
        '--dialect',
        'openai',
        '--base-url',
        model.url,
        '--model',
        'mine-1',
        '--key-file',
        '-',
        '--json',
      ],
      { state: runtime.stateDir, env: runtime.env, stdin: `${TYPED}\n` },
    );
    assert.equal(ran.code, 0, ran.stderr);
    recorded.push(ran);
    const { provider } = documentOf<{ provider: { has_key: boolean } }>(ran);
    assert.equal(provider.has_key, true);
    const body = {
      model: 'mine/mine-1',
      messages: [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'hello' }] }],
    };
    await keep(runtime.modeld.generate({ body }));
    assert.equal(model.scenesFor('hello')[0]?.headers.authorization, `Bearer ${TYPED}`);
    const shown = await agentctl(['model', 'list'], { state: runtime.stateDir, env: runtime.env });
    recorded.push(shown);
  });

  it('[R98] neither key is in any response, log, record or event', () => {
    const responses = JSON.stringify(recorded, (_, value: unknown) =>
      value instanceof Error ? { ...value, message: value.message, stack: value.stack } : value,
    );
    for (const key of [FILED, TYPED]) assert.ok(!responses.includes(key), 'a response has it');
    // Its exit status reports files that disappeared meanwhile, such as those of databases.
    const found = (key: string): string[] =>
      spawnSync('grep', ['-rlaF', key, base], { encoding: 'utf8' })
        .stdout.split('\n')
        .filter(Boolean);
    assert.deepEqual(found(FILED), [keyFile]);
    const files = found(TYPED);
    assert.equal(files.length, 1, files.join());
    assert.equal(statSync(files[0]!).mode & 0o777, 0o600);
    assert.ok(found(model.url).length > 0, 'control: the search works');
  });

  it('[R98] a key file that others can read is refused with that reason', async () => {
    await runtime.stop();
    chmodSync(keyFile, 0o644);
    const error = await runtime.restart().then(
      () => assert.fail('it should not have started'),
      (reason: unknown) => reason as Error,
    );
    assert.match(error.message, /provider\.key/);
    assert.match(`${error.message} ${(error as { hint?: string }).hint}`, /0?600/);
    assert.ok(!error.message.includes(FILED));
    chmodSync(keyFile, 0o600);
    runtime = await runtime.restart();
  });
});
