// A task is watched while it works: model text and command output arrive as they come, and neither
// they nor an interrupted watch change anything.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import type { LiveItem } from '../../src/wire/live.ts';
import { startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, manifestOf, scriptedModels } from '../support/scripted-world.ts';

const CODER = '{ tools: { allow: [shell.exec, file.read, file.write_workspace] } }';
const SLOW = String.raw`echo first; printf '\033[2J\033]0;t\007not agentctl\n'; sleep 3; echo last`;

describe('task watch', () => {
  let model: ScriptedModel;
  let runtime: TestRuntime;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: { coder: manifestOf('coder', CODER) },
      config: JSON.stringify({ modeld: scriptedModels(model.url) }),
    });
    model.on(
      'Print',
      // The watch starts meanwhile.
      { calls: [call('shell.exec', { command: 'sleep 4' })] },
      {
        wordMs: 300,
        text: 'I print it now, slowly.',
        calls: [call('shell.exec', { command: SLOW })],
      },
      finishes('printed'),
    );
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });
  const start = () => create(runtime, 'Print', { agent: 'coder' });
  const run = (...words: string[]) => agentctl(words, { state: runtime.stateDir });

  it('--json has each piece as it comes, and ends with the task', async () => {
    const task = await start();
    let seen = '';
    const arrivals: { line: string; ms: number }[] = [];
    const ran = await agentctl(['task', 'watch', task.id, '--json'], {
      state: runtime.stateDir,
      watch: ({ stdout }) => {
        for (const line of stdout.slice(seen.length).split('\n'))
          if (line !== '') arrivals.push({ line, ms: performance.now() });
        seen = stdout;
        return undefined;
      },
    });
    assert.equal(ran.code, 0, ran.stderr);
    const documents = ran.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { task?: TaskView; live?: LiveItem });
    assert.equal(documents.at(-1)!.task!.status, 'completed');
    const live = documents.flatMap((document) => document.live ?? []);
    assert.ok(live.every((item) => item.task_id === task.id && item.agent === 'coder'));
    const words = live.filter(({ kind }) => kind === 'text').map(({ text }) => text);
    assert.ok(words.length >= 3, `model text in one piece: ${words}`);
    assert.equal(words.join(''), 'I print it now, slowly.');
    assert.ok(live.some(({ kind, text }) => kind === 'tool_call' && text === 'shell_exec'));
    const printed = live.filter(({ kind }) => kind === 'stdout');
    assert.ok(printed.every(({ source }) => source === 'shell.exec'));
    const timeOf = (text: string) => arrivals.find(({ line }) => line.includes(text))!.ms;
    assert.ok(timeOf('last') - timeOf('first') > 1_000, 'the first line came before the last');
  });

  it('prints lines that cannot act on the terminal, before the task has ended', async () => {
    const task = await start();
    const ran = await run('task', 'watch', task.id);
    assert.equal(ran.code, 0, ran.stderr);
    assert.match(ran.stdout, /coder says\n {2}│ I print it now, slowly\.\n/);
    assert.match(ran.stdout, /coder runs shell\.exec\n {2}│ first\n {2}│ not agentctl\n {2}│ last/);
    assert.ok(!ran.stdout.includes('\u001b'));
    assert.match(ran.stdout, /printed\n/);
  });

  it('on a terminal prints them above the tree, which is redrawn below', async () => {
    const task = await start();
    const state = runtime.stateDir;
    const ran = await agentctl(['task', 'watch', task.id], { state, onTerminal: true });
    assert.equal(ran.code, 0, ran.stdout);
    // Nothing but its own colours and redrawing reaches the terminal.
    const [first, ...parts] = ran.stdout.split('\u001b[');
    const text = [first, ...parts.map((part) => part.replace(/^(?:\d*m|\d+A\r|J)/, ''))]
      .join('')
      .replaceAll('\r\n', '\n');
    assert.doesNotMatch(text.replaceAll('\n', ''), /\p{Cc}/u);
    // Each is followed by the tree or, when it came with more, by the next line.
    assert.match(text, /coder runs shell\.exec\n {2}│ first\n(?: {2}│ not agentctl\n)?\S.*coder/);
    assert.match(text, / {2}│ not agentctl\n\S.*coder/);
    assert.match(text, / {2}│ last\n/);
  });

  it('an interrupted watch leaves the task working', async () => {
    const task = await start();
    const ran = await agentctl(['task', 'watch', task.id], {
      state: runtime.stateDir,
      watch: ({ stdout }) => (stdout.includes('│ first') ? 'SIGINT' : undefined),
    });
    assert.equal(ran.code, 130);
    assert.match(ran.stdout, /continues in the background: working\n.*agentctl task watch/);
    assert.equal((await taskEnded(runtime, task.id)).status, 'completed');
  });

  it('a watched task is recorded as any other', async () => {
    const task = await start();
    const [watched] = await Promise.all([
      taskEnded(runtime, task.id),
      run('task', 'watch', task.id),
    ]);
    assert.equal(watched.status, 'completed');
    const { calls } = await runtime.modeld.listCalls({ query: { task_id: task.id } });
    assert.ok(calls.every(({ status }) => status === 'completed'));
    const { replay } = await runtime.agentd.replayTask({ params: { id: task.id } });
    assert.equal(replay.same, true, JSON.stringify(replay));
  });
});
