// SIGKILL of maild at each step between an approved mail and its recorded reply: the smarthost gets
// it once. Where it may have it already, a person is asked before it is sent again.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { killRequested } from '../support/kills.ts';
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
import { create, manifestOf, openWait, scriptedModels } from '../support/scripted-world.ts';
import { smarthostConfig, startSmarthost, type TestSmarthost } from '../support/smarthost.ts';

const SENDER = manifestOf('sender', '{ tools: { allow: [email.send_external] } }');

type Case = {
  failpoint: string;
  /** A person's answer; absent where it is certain that nothing was sent. */
  answer?: 'it happened' | 'it did not happen';
};
const CASES: readonly Case[] = [
  { failpoint: 'maild.before-smarthost' },
  { failpoint: 'maild.after-handing', answer: 'it did not happen' },
  { failpoint: 'maild.after-smarthost', answer: 'it happened' },
];

describe('killed while a mail is given to the smarthost', () => {
  const base = freshDir();
  const stateDir = join(base, 'state');
  const crashFile = join(stateDir, 'crash-at');
  let runtime: TestRuntime;
  let model: ScriptedModel;
  let smarthost: TestSmarthost;
  before(async () => {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    smarthost = await startSmarthost();
    const caFile = join(stateDir, 'ca.pem');
    writeFileSync(caFile, smarthost.ca);
    model = await startScriptedModel();
    runtime = await startRuntime({
      base,
      mode: 'split',
      faults: true,
      agents: { sender: SENDER },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        maild: { domain: 'example.com', smarthost: smarthostConfig(smarthost, caFile) },
      }),
    });
    setInterval(() => killRequested(runtime), 5).unref();
  });
  after(async () => {
    await runtime.remove();
    await model.close();
    await smarthost.close();
    rmSync(base, { recursive: true, force: true });
  });

  const start = async (goal: string, word: string) => {
    const mail = { to: ['ann@example.org'], subject: 'Herons', text: `${word}\n` };
    model.on(goal, says(call('email.send_external', mail)), ({ results }) =>
      finishes(`Done: ${results.at(-1)}`),
    );
    const task = await create(runtime, goal, { agent: 'sender' });
    const approval = await eventually('an approval', async () => {
      const { approvals } = await runtime.approvald.listApprovals({ query: { status: 'pending' } });
      return approvals.find(({ task_id }) => task_id === task.id);
    });
    return { task, approval };
  };
  const approve = (id: string) =>
    makeReviewer(runtime.approvald).approve({ params: { id: id as never }, body: {} });

  for (const { failpoint, answer } of CASES)
    it(`${failpoint}: the smarthost has it once`, async () => {
      const word = `Heron of ${failpoint}`;
      const { task, approval } = await start(`Send at ${failpoint}`, word);
      writeFileSync(crashFile, failpoint);
      await approve(approval.id);
      await eventually('the kill', async () => !existsSync(crashFile) || undefined);
      if (answer !== undefined) {
        const { id, question } = await openWait(runtime, task.id, 'question');
        assert.match(question ?? '', /email\.send_external/);
        const sent = answer === 'it happened' ? 1 : 0;
        assert.equal(smarthost.mailsWith(word).length, sent, 'before a person has answered');
        await eventually('the answer', () =>
          runtime.agentd.answerWait({ params: { id }, body: { answer } }),
        );
      }
      const ended = await taskEnded(runtime, task.id);
      assert.equal(ended.status, 'completed');
      const got = smarthost.mailsWith(word);
      assert.equal(got.length, 1);
      const { result = '' } = ended;
      const messageId = /^Message-ID: <([^>]+)>/im.exec(got[0]!.raw)![1]!;
      if (answer !== 'it happened') assert.ok(result?.includes(messageId), result ?? '');
    });
});
