// SIGKILL of maild at each step between DATA and the task: mail that was acknowledged is handed
// over once; mail that was not is sent again, and recognized if it was taken.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { killRequested } from '../support/kills.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { sendSmtp, writeMail } from '../support/smtp.ts';

const FAILPOINTS = [
  'maild.before-take',
  'maild.after-take',
  'maild.before-handover',
  'maild.after-handover',
];

describe('killed while mail is taken in', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  before(async () => {
    writePersonKey(join(base, 'state'), 'ann');
    runtime = await startRuntime({ base, mode: 'split', faults: true });
    setInterval(() => killRequested(runtime), 5).unref();
  });
  after(async () => {
    await runtime.remove();
    rmSync(base, { recursive: true, force: true });
  });

  const socket = () => ({ path: join(runtime.runtimeDir, 'maild', 'smtp', 'smtp.sock') });
  const send = (mail: string, to: readonly string[]) =>
    sendSmtp(socket(), { auth: ['ann', 'ann'.repeat(32)], to, mail });
  /** As a mail server does: until it is told that the mail was taken. */
  const sendUntilTaken = (mail: string, to: readonly string[]) =>
    eventually('the mail to be taken', async () =>
      (await send(mail, to)).startsWith('250') ? true : undefined,
    );
  const goals = async (): Promise<string[]> =>
    (await runtime.agentd.listTasks({ query: { limit: 500 } })).tasks.map(({ goal }) => goal);
  const copies = (word: string): number => {
    const dir = (part: string) => join(runtime.stateDir, 'mail', 'operator', part);
    return ['new', 'cur']
      .flatMap((part) =>
        existsSync(dir(part))
          ? readdirSync(dir(part)).map((name) => readFileSync(join(dir(part), name), 'utf8'))
          : [],
      )
      .filter((text) => text.includes(`X-Agentd-Sender: person:ann`) && text.includes(word)).length;
  };

  for (const failpoint of FAILPOINTS)
    it(`${failpoint}: one task and one copy`, async () => {
      const to = ['coder@localhost', 'operator@localhost'];
      const word = `Heron ${failpoint}`;
      const mail = writeMail({ Subject: word }, 'Look.\n');
      writeFileSync(crashFile, failpoint);
      await sendUntilTaken(mail, to);
      await eventually('the kill', async () => !existsSync(crashFile) || undefined);
      await eventually('the copy', async () => copies(word) > 0 || undefined);
      await sendUntilTaken(mail, to);
      const last = writeMail({ Subject: `After ${failpoint}` }, 'Look.\n');
      await sendUntilTaken(last, to);
      await eventually('the last task', async () =>
        (await goals()).some((goal) => goal.startsWith(`After ${failpoint}`)) ? true : undefined,
      );
      await eventually('the task', async () =>
        (await goals()).some((goal) => goal.startsWith(word)) ? true : undefined,
      );
      assert.equal((await goals()).filter((goal) => goal.startsWith(word)).length, 1);
      assert.equal(copies(word), 1);
    });
});
