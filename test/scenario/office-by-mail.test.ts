// A day at the office from a mail program alone: a person mails a request with s-nail, the work
// goes through three agents, the person answers a question by reply, and the answer is in the
// thread. Started as an ordinary user, and by root.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import type { TaskView, TreeNode } from '../../src/wire/agentd.ts';
import { runProgram, SENDMAIL } from '../support/mail-programs.ts';
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

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
const DELEGATES = '{ replicas: 4, tools: { allow: [task.delegate] } }';
const OFFICE = {
  planner: manifestOf('planner', DELEGATES),
  researcher: manifestOf('researcher', DELEGATES),
  writer: manifestOf(
    'writer',
    '{ tools: { allow: [package.request] } }',
    'Writes reports and counts nests.',
  ),
};
const REQUEST = 'Report about the herons';

for (const mode of IS_ROOT ? (['root', 'user'] as const) : (['user'] as const))
  describe(`an office by mail, ${mode}`, () => {
    const base = freshDir();
    const home = join(base, 'home');
    let world: TestRuntime;
    let model: ScriptedModel;
    before(async () => {
      mkdirSync(home, { mode: 0o777 });
      writePersonKey(join(base, 'state'), 'ann');
      model = await startScriptedModel();
      world = await startRuntime({
        base,
        agents: OFFICE,
        config: JSON.stringify({ modeld: scriptedModels(model.url) }),
        ...(mode === 'user' && IS_ROOT ? { uid: NOBODY } : {}),
      });
    });
    after(async () => {
      await world.remove();
      await model.close();
      rmSync(base, { recursive: true, force: true });
    });

    const box = () => join(world.stateDir, 'mail', 'ann');
    const filesOf = (): string[] =>
      ['new', 'cur'].flatMap((part) => {
        const dir = join(box(), part);
        try {
          return readdirSync(dir).map((name) => readFileSync(join(dir, name), 'utf8'));
        } catch {
          return [];
        }
      });
    const letter = (text: RegExp) =>
      eventually(`mail with ${text}`, async () => filesOf().find((file) => text.test(file)));
    const fieldOf = (file: string, name: string): string =>
      RegExp(`^${name}: (.*(?:\\n[ \\t].*)*)$`, 'm').exec(file)?.[1] ?? '';
    /** s-nail as ann, who works on her own mailbox. */
    const snail = (args: readonly string[], stdin: string) =>
      runProgram(['s-nail', '-:/', '-Sv15-compat', `-Smta=file://${SENDMAIL}`, ...args], {
        stdin,
        env: { AGENTD_STATE: world.stateDir, AGENTD_PERSON: 'ann', HOME: home, USER: 'ann' },
      });
    const replyTo = (subject: string, text: string) =>
      snail(['-#', '-f', box()], `reply /${subject}\n${text}\n~.\nxit\n`);
    const flatten = ({ task, children }: TreeNode): TaskView[] => [
      task,
      ...children.flatMap(flatten),
    ];

    it('[K121] a mailed request goes through three agents and comes back in its thread', async () => {
      const told = ({ results }: { results: string[] }) => results.join();
      model.on(
        REQUEST,
        says(call('task.delegate', { agent: 'researcher', goal: 'Find out about herons' })),
        ({ results }) => finishes(`THE REPORT: ${results.join()}`),
      );
      model.on(
        'Find out about herons',
        says(call('person.ask', { question: 'Which herons?' })),
        (scene) =>
          says(call('task.delegate', { agent: 'writer', goal: `Write it up: ${told(scene)}` })),
        (scene) => finishes(`Found and written: ${told(scene)}`),
      );
      model.on('Write it up', ({ goal }) => finishes(`Written up (${goal.slice(0, 60)})`));

      const sent = await snail(['-s', REQUEST, 'planner@localhost'], 'By Friday, please.\n');
      assert.equal(sent.code, 0, sent.output);
      const task = await eventually('the task', async () =>
        (await world.agentd.listTasks({ query: {} })).tasks.find(({ goal }) =>
          goal.startsWith(REQUEST),
        ),
      );
      assert.deepEqual([task.created_by, task.assigned_to], ['person:ann', 'planner']);

      const [child] = await eventually('the task of the researcher', async () => {
        const { tasks } = await world.agentd.listTasks({ query: { parent_task_id: task.id } });
        return tasks.length > 0 ? tasks : undefined;
      });
      await openWait(world, child!.id, 'question');
      const question = await letter(/^Which herons\?$/m);
      assert.match(fieldOf(question, 'From'), /^researcher </);
      assert.equal(fieldOf(question, 'Subject'), `Re: ${REQUEST}`);
      const request = fieldOf(question, 'In-Reply-To');
      assert.notEqual(request, '', 'it answers the mail of ann');

      const replied = await replyTo(REQUEST, 'The grey ones.');
      const ended = await taskEnded(world, task.id).catch((error: unknown) => {
        throw new Error(replied.output, { cause: error });
      });
      assert.equal(ended.status, 'completed');
      assert.match(String(ended.result), /^THE REPORT: .*The grey ones\./s);
      const { tree } = await world.agentd.getTree({ params: { id: task.id } });
      assert.deepEqual(
        flatten(tree).map(({ assigned_to, status }) => [assigned_to, status]),
        [
          ['planner', 'completed'],
          ['researcher', 'completed'],
          ['writer', 'completed'],
        ],
      );

      const answer = await letter(/^THE REPORT: /m);
      assert.match(fieldOf(answer, 'From'), /^planner </);
      assert.ok(fieldOf(answer, 'References').includes(request), 'in the thread of the request');
      const shown = await snail(['-R', '-f', box()], 'type *\nxit\n');
      assert.match(shown.output, /THE REPORT: .*grey/s);
    });

    it('[K121] a task on the board gets the agent that fits', async () => {
      model.on('Count the nests', finishes('Nine nests.'));
      const { task } = await world.agentd.createTask({
        body: { goal: 'Count the nests', needs: [] },
      });
      const ended = await taskEnded(world, task.id);
      assert.deepEqual([ended.assigned_to, ended.result], ['writer', 'Nine nests.']);
    });

    it('[K77] failures, a run that the breaker stopped and requests for software are mailed', async () => {
      model.on('Fly south', finishes('It is summer.', { status: 'failed' }));
      model.on('Turn in circles', says(call('team.list')));
      model.on(
        'Draw the pond',
        says(call('package.request', { manager: 'apt', name: 'graphviz', reason: 'to draw' })),
        finishes('Drawn.'),
      );
      for (const goal of ['Fly south', 'Turn in circles', 'Draw the pond']) {
        const sent = await snail(['-s', goal, 'writer@localhost'], 'Please.\n');
        assert.equal(sent.code, 0, sent.output);
      }
      const software = await letter(/^writer asks for the apt package graphviz/m);
      assert.equal(fieldOf(software, 'Subject'), 'Re: Draw the pond');
      const failed = await letter(/^It is summer\.$/m);
      assert.match(fieldOf(failed, 'Subject'), /^Re: Fly south$/);
      const broken = await letter(/equal calls|no progress|in a row/i);
      assert.match(fieldOf(broken, 'Subject'), /^Re: Turn in circles$/);
      const replied = await replyTo('Draw the pond', 'it is installed');
      await letter(/^Drawn\.$/m).catch((error: unknown) => {
        throw new Error(replied.output, { cause: error });
      });
    });

    it('the digest of the day is read in the same program', async () => {
      const ran = await runProgram(
        [join(SENDMAIL, '..', 'agentctl'), 'digest', '--mail', '--as', 'ann'],
        { env: { AGENTD_STATE: world.stateDir, HOME: home } },
      );
      assert.equal(ran.code, 0, ran.output);
      await letter(/^Subject: digest: /m);
      const shown = await snail(['-R', '-f', box()], 'type /digest\nxit\n');
      assert.match(shown.output, /DONE: 3 tasks[\s\S]*Report about the herons/);
    });
  });
