// A request that is not clear: the agent is told to look first and to ask one question, begins with
// what is remembered and the skills that fit, and its question reaches the person who wrote. The
// run has no process meanwhile, and the agent does other work.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  openWait,
  reaches,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const GOAL = 'The login test fails. Find the cause of this bug.';
const KNOWN = 'There are two login tests: one of the web page, one of the command line.';
const QUESTION = 'Which login test fails? Without an answer I take that of the web page.';

describe('an unclear request', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        bob: manifestOf(
          'bob',
          '{ personas: [tester], replicas: 1, memory: { scope: "project:app", write: ["project:app"] } }',
        ),
      },
      agentd: { memory: { wait_ms: 10_000 } },
    });
  });
  after(() => world.stop());

  it('[K68] leads to a look at memory and skills, then to a question to the one who wrote it', async () => {
    await world.memoryd.remember({
      body: { class: 'semantic', scope: 'project:app', text: KNOWN },
    });
    world.model.on(
      GOAL,
      says(call('skill.read', { name: 'debug-a-failure' })),
      says(call('person.ask', { question: QUESTION })),
      ({ results }) => finishes(`It was this: ${results.at(-1)}`),
    );
    const task = await create(world, GOAL, { agent: 'bob' });
    const wait = await openWait(world, task.id, 'question');
    assert.equal(wait.question, QUESTION);

    const [first, second] = world.model.scenesFor(GOAL);
    const [system, ...rest] = first!.messages.map(({ content }) => String(content));
    assert.match(system!, /\*\*Look first\.\*\*[^*]* Do not ask for what you can find out\./);
    assert.match(
      system!,
      /ask\s+one specific question and name what you would do without an answer/,
    );
    assert.match(system!, /read one with skill_read before you begin:\n- debug-a-failure/);
    assert.ok(
      rest.some((text) => text.includes(KNOWN)),
      'what is known about it is there before the first step',
    );
    assert.match(second!.results[0]!, /debug-a-failure/, 'it read the skill before it asked');

    await reaches(world, task.id, 'waiting');
    await eventually('no run to be live', async () =>
      (await world.agentd.status({})).runs.live === 0 ? true : undefined,
    );
    const asked = world.model.scenesFor(GOAL).length;
    const other = await doTask(world, 'Hum a song', { agent: 'bob' });
    assert.equal(other.status, 'completed', 'its only replica is free for other work');
    const mail = await eventually('the question by mail', async () =>
      (await world.maild.listMail({ query: {} })).mails.find(({ subject }) =>
        subject.startsWith('question: Which login test'),
      ),
    );
    assert.match(mail.from, /^"?bob"? </);
    assert.equal(task.created_by, 'person:tester', 'whose mailbox it is');
    assert.equal(world.model.scenesFor(GOAL).length, asked, 'waiting asks no model');

    const params = { id: wait.id };
    await world.agentd.answerWait({ params, body: { answer: 'the one of the command line' } });
    const ended = await taskEnded(world, task.id);
    assert.match(ended.result ?? '', /^It was this: .*the one of the command line/);
  });
});
