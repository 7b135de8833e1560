// Tests the built-in screenplays on both wires with a small agent loop.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type LoopOptions, type LoopStep, runAnthropicLoop, runOpenaiLoop } from './agent-loop.ts';
import { startServer, type TestServer } from './testing.ts';

const WIRES = { openai: runOpenaiLoop, anthropic: runAnthropicLoop };

const listTools = (steps: readonly LoopStep[]) =>
  steps.map((step) => step.calls.map((call) => call.name));

const readFinalResult = (steps: readonly LoopStep[]) =>
  String(steps.at(-1)?.calls[0]?.input.result);

for (const [wire, loop] of Object.entries(WIRES)) {
  describe(`the built-in screenplays on the ${wire} wire`, () => {
    const runLoop = async (options: LoopOptions, check: (steps: LoopStep[]) => void) => {
      await using server: TestServer = await startServer();
      check(await loop(server, options));
    };

    test('an unmatched goal: the planner delegates in parallel and combines both results', () =>
      runLoop(
        {
          agent: 'planner',
          goal: 'Write a haiku about penguins',
          runTool: (call) =>
            JSON.stringify({ status: 'completed', result: `[rehearsal] from ${call.input.agent}` }),
        },
        (steps) => {
          assert.deepEqual(listTools(steps), [['task_delegate', 'task_delegate'], ['task_finish']]);
          assert.deepEqual(
            steps[0]!.calls.map((call) => call.input.agent),
            ['researcher', 'coder'],
          );
          for (const call of steps[0]!.calls) assert.match(String(call.input.goal), /penguins/);
          const result = readFinalResult(steps);
          assert.match(result, /^\[rehearsal\] This was a rehearsal: no real model answered/);
          assert.match(result, /researcher said: from researcher/);
          assert.match(result, /coder said: from coder/);
          assert.match(result, /agentctl model add/);
        },
      ));

    for (const agent of ['researcher', 'coder']) {
      test(`${agent} stores an artifact and finishes`, () =>
        runLoop({ agent, goal: 'Count penguins' }, (steps) => {
          assert.deepEqual(listTools(steps), [['artifact_put'], ['task_finish']]);
          const { name, text, mime_type } = steps[0]!.calls[0]!.input;
          assert.equal(mime_type, 'text/markdown');
          assert.match(String(name), /\.md$/);
          assert.match(String(text), /\[rehearsal\][\s\S]*Count penguins/);
          assert.match(readFinalResult(steps), /^\[rehearsal\] .*Count penguins/);
        }));
    }

    test('any other agent finishes immediately', () =>
      runLoop({ agent: 'reviewer', goal: 'Look at it' }, (steps) => {
        assert.deepEqual(listTools(steps), [['task_finish']]);
        assert.match(readFinalResult(steps), /\[rehearsal\][\s\S]*Look at it/);
      }));

    test('without the scripted tools it replies with text', () =>
      runLoop({ agent: 'reviewer', goal: 'Look at it', tools: ['artifact_get'] }, (steps) => {
        assert.deepEqual(listTools(steps), [[]]);
        assert.match(steps[0]!.text, /^\[rehearsal\] This was a rehearsal[\s\S]*Look at it/);
      }));

    test('without any tool the planner describes its calls', () =>
      runLoop({ agent: 'planner', goal: 'Fly', tools: [] }, (steps) => {
        assert.deepEqual(listTools(steps), [[]]);
        assert.match(steps[0]!.text, /^\[rehearsal\] I will ask the researcher/);
      }));

    test('ask a person: the answer reaches the other agents and the result', () =>
      runLoop(
        {
          agent: 'planner',
          goal: 'Choose a colour, but ask a person first',
          runTool: (call) =>
            call.name === 'person_ask'
              ? JSON.stringify({ answer: 'make it green' })
              : JSON.stringify({ result: `${call.input.agent} is done` }),
        },
        (steps) => {
          assert.deepEqual(listTools(steps), [
            ['person_ask'],
            ['task_delegate', 'task_delegate'],
            ['task_finish'],
          ]);
          assert.match(String(steps[0]!.calls[0]!.input.question), /^\[rehearsal\]/);
          for (const call of steps[1]!.calls) assert.match(String(call.input.goal), /green/);
          assert.match(readFinalResult(steps), /person said: make it green/);
          assert.match(readFinalResult(steps), /coder is done/);
        },
      ));

    test('count the effect: N steps with N different keys, then finish', () =>
      runLoop({ agent: 'coder', goal: 'Count the effect 3 times with key t7' }, (steps) => {
        assert.deepEqual(
          steps.map((step) => step.calls[0]!.input.key),
          ['t7-1', 't7-2', 't7-3', undefined],
        );
        assert.deepEqual(listTools(steps).at(-1), ['task_finish']);
      }));

    test('count the effect without a number happens once', () =>
      runLoop({ agent: 'coder', goal: 'count the effect' }, (steps) => {
        assert.deepEqual(listTools(steps), [['test_count_effect'], ['task_finish']]);
      }));

    test('loop for ever repeats one call and never ends', () =>
      runLoop({ agent: 'coder', goal: 'Loop for ever', stepsMax: 25 }, (steps) => {
        assert.equal(steps.length, 25);
        const calls = new Set(steps.map((step) => JSON.stringify(step.calls)));
        assert.equal(calls.size, 1);
      }));

    test('malformed: invalid arguments first, then valid ones', () =>
      runLoop({ agent: 'coder', goal: 'be malformed' }, (steps) => {
        assert.deepEqual(listTools(steps), [['task_finish'], ['task_finish']]);
        assert.ok('unparsable' in steps[0]!.calls[0]!.input);
        assert.match(readFinalResult(steps), /this one is right/);
      }));

    test('unknown tool: a name that was not offered, then finish', () =>
      runLoop({ agent: 'coder', goal: 'call an unknown tool' }, (steps) => {
        assert.deepEqual(listTools(steps), [['no_such_tool'], ['task_finish']]);
      }));

    test('slow: waits at least as long as the goal specifies', async () => {
      const before = performance.now();
      await runLoop({ agent: 'coder', goal: 'be slow 60 ms' }, (steps) => {
        assert.ok(performance.now() - before >= 59);
        assert.deepEqual(listTools(steps), [['task_finish']]);
      });
    });
  });
}
