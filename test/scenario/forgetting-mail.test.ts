// A forgotten text is taken out of mail, too: out of what was delivered, in each of its parts, and
// out of what waits to be handed over, which arrives with a gap.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import type { MemoryView } from '../../src/wire/memoryd/records.ts';
import { findFiles } from '../support/find-files.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import { finishes, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts';
import { scriptedModels, TEAM } from '../support/scripted-world.ts';
import { sendSmtp, writeMail } from '../support/smtp.ts';

const ANN = ['ann', 'ann'.repeat(32)] as const;
const TEXT = 'The osprey key of the boathouse lies under the third stone.';
const inBase64 = (text: string): string => Buffer.from(text).toString('base64');
const BODY = inBase64(`Listen: ${TEXT}\n`);
const NOTES = inBase64(`# Notes\n\n${TEXT}\n`);
/** How the text is written in the mails. */
const FORMS = [TEXT, BODY, NOTES];

const base = freshDir();
let runtime: TestRuntime;
let model: ScriptedModel;
before(async () => {
  writePersonKey(join(base, 'state'), 'ann');
  model = await startScriptedModel();
  runtime = await startRuntime({
    base,
    mode: 'embedded',
    agents: TEAM,
    config: JSON.stringify({ modeld: scriptedModels(model.url) }),
  });
});
after(async () => {
  await runtime.remove();
  await model.close();
  rmSync(base, { recursive: true, force: true });
});

const letter = (subject: string): string =>
  writeMail(
    { Subject: subject, 'MIME-Version': '1.0', 'Content-Type': 'multipart/mixed; boundary=b' },
    [
      '--b',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: base64',
      '',
      BODY,
      '--b',
      'Content-Type: text/markdown; charset=utf-8',
      'Content-Disposition: attachment; filename=notes.md',
      'Content-Transfer-Encoding: base64',
      '',
      NOTES,
      '--b--',
      '',
    ].join('\n'),
  );
const send = (to: string, subject: string): Promise<string> =>
  sendSmtp(
    { path: join(runtime.runtimeDir, 'maild', 'smtp', 'smtp.sock') },
    { auth: ANN, to: `${to}@localhost`, mail: letter(subject) },
  );
const has = (dir: RegExp, form: string): boolean =>
  findFiles(runtime.stateDir, form).some((name) => dir.test(name));

it('a mailbox and a mail that waits have no byte of it, and the rest arrives', async () => {
  const body = { class: 'semantic', scope: 'team', text: TEXT } as const;
  const { memory } = await runtime.memoryd.remember({ body });
  await runtime.agentd.halt({ body: {} });
  assert.match(await send('ann', 'For you'), /^250/);
  assert.match(await send('coder', 'Find the key'), /^250/);
  const arrived = () =>
    eventually('the mail', async () => has(/^mail\/ann\/new\//, BODY) || undefined);
  await arrived();
  assert.ok(has(/^maild\.sqlite/, NOTES.slice(0, 60)), 'control: it waits');
  await runtime.memoryd.forget({ body: { ids: [memory.id] } });
  await eventually('the copies to be removed', async (): Promise<MemoryView | undefined> => {
    const { memory: now } = await runtime.memoryd.getMemory({ params: { id: memory.id } });
    return now.erasure?.status === 'done' ? now : undefined;
  });
  for (const form of FORMS) assert.deepEqual(findFiles(runtime.stateDir, form), [], form);
  assert.ok(has(/^mail\/ann\/new\//, inBase64('Listen: [forgotten]\n').slice(0, 24)));
  model.on('Find the key', finishes('I looked.'));
  await runtime.agentd.unhalt({});
  const task = await eventually('its task', async (): Promise<TaskView | undefined> => {
    const { tasks } = await runtime.agentd.listTasks({ query: { limit: 10 } });
    return tasks.find(({ goal }) => goal.startsWith('Find the key'));
  });
  assert.equal(task.goal, 'Find the key\n\nListen: [forgotten]');
  assert.equal((await taskEnded(runtime, task.id)).status, 'completed');
  const { artifacts } = await runtime.agentd.listArtifacts({ query: { limit: 10 } });
  const notes = artifacts.find(({ name }) => name === 'notes.md')!;
  const { text } = await runtime.agentd.getArtifact({ params: { id: notes.id }, query: {} });
  assert.equal(text, '# Notes\n\n[forgotten]\n');
});
