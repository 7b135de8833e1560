// Programs of Debian with this mail: swaks hands it in by SMTP and LMTP, s-nail and mutt send by
// the command that stands for sendmail, s-nail and the IMAP server of Dovecot read the Maildir.
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import { runProgram as run, SENDMAIL } from '../support/mail-programs.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { openWait, scriptedModels, TEAM } from '../support/scripted-world.ts';

const LMTP_RULE = `@id("lmtp") permit (
  principal == External::"mail:lmtp", action == Action::"task.delegate", resource == Agent::"coder");`;

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe('mail programs', () => {
  const base = freshDir();
  const home = join(base, 'home');
  let world: TestRuntime;
  let model: ScriptedModel;
  let smtp = 0;
  let lmtp = 0;
  before(async () => {
    const policies = join(base, 'state', 'policies');
    mkdirSync(policies, { recursive: true, mode: 0o700 });
    mkdirSync(home);
    writeFileSync(join(policies, 'mail.cedar'), LMTP_RULE);
    writePersonKey(join(base, 'state'), 'ann');
    [smtp, lmtp] = [await freePort(), await freePort()];
    model = await startScriptedModel();
    world = await startRuntime({
      base,
      agents: TEAM,
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        maild: { smtp_port: smtp, lmtp_port: lmtp, aliases: { duo: ['coder', 'ann'] } },
      }),
    });
  });
  after(async () => {
    await world.remove();
    await model.close();
    rmSync(base, { recursive: true, force: true });
  });

  const env = () => ({ AGENTD_STATE: world.stateDir, HOME: home, USER: 'ann' });
  const asAnn = () => ({ ...env(), AGENTD_PERSON: 'ann' });
  const boxOf = (name: string) => join(world.stateDir, 'mail', name);
  const taskOf = (goal: RegExp): Promise<TaskView> =>
    eventually(`a task about ${goal}`, async () =>
      (await world.agentd.listTasks({ query: { limit: 100 } })).tasks.find((task) =>
        goal.test(task.goal),
      ),
    );
  const filesOf = (name: string): string[] =>
    ['new', 'cur'].flatMap((part) =>
      readdirSync(join(boxOf(name), part)).map((file) =>
        readFileSync(join(boxOf(name), part, file), 'utf8'),
      ),
    );
  const swaks = (...more: string[]) =>
    run(['swaks', '--server', `127.0.0.1:${smtp}`, '--from', 'ann@example.org', ...more]);

  it('[K69] swaks: with a key it is a task, without one it is refused', async () => {
    const mail = ['--to', 'coder@localhost', '--header', 'Subject: By swaks', '--body', 'Go.'];
    const login = ['--auth', 'PLAIN', '--auth-user', 'ann', '--auth-password', 'ann'.repeat(32)];
    const refused = await swaks(...mail);
    assert.notEqual(refused.code, 0);
    assert.match(refused.output, /550 5\.7\.1 no rule permits mail from outside/);
    const sent = await swaks(...mail, ...login);
    assert.equal(sent.code, 0, sent.output);
    assert.equal((await taskOf(/^By swaks\n\nGo\.$/)).created_by, 'person:ann');
    const many = await swaks(...login, '--to', 'nobody@localhost,coder@elsewhere.example');
    assert.match(many.output, /550 5\.1\.1/);
    assert.match(many.output, /550 5\.7\.1 mail for other hosts/);
  });

  it('swaks by LMTP, as a mail server hands over: outside, with a rule', async () => {
    const argv = ['--protocol', 'LMTP', '--server', `127.0.0.1:${lmtp}`, '--from', 'x@example.org'];
    const to = ['--to', 'coder@localhost', '--header', 'Subject: By LMTP', '--body', 'Hm.'];
    const sent = await run(['swaks', ...argv, ...to]);
    assert.equal(sent.code, 0, sent.output);
    const task = await taskOf(/^By LMTP/);
    assert.deepEqual([task.created_by, task.labels], ['external:mail:lmtp', ['outside']]);
    const other = await run(['swaks', ...argv, '--to', 'planner@localhost']);
    assert.match(other.output, /550 5\.7\.1/, 'control: another agent');
  });

  it('[K71] s-nail: sends by the command, lists the Maildir and prints a mail', async () => {
    model.on('Ask by s-nail', says(call('person.ask', { question: 'How many?' })), ({ results }) =>
      finishes(`Then it is ${results.join()}`),
    );
    const send = (subject: string, body: string, ...more: string[]) =>
      run(
        [
          's-nail',
          '-:/',
          '-Sv15-compat',
          `-Smta=file://${SENDMAIL}`,
          ...more,
          '-s',
          subject,
          'coder@localhost',
        ],
        { stdin: body, env: asAnn() },
      );
    const sent = await send('Ask by s-nail', 'Please.\n');
    assert.equal(sent.code, 0, sent.output);
    const task = await taskOf(/^Ask by s-nail\n\nPlease\.$/);
    assert.equal(task.created_by, 'person:ann');
    await openWait(world, task.id, 'question');
    await eventually('the question', async () =>
      filesOf('ann').some((file) => file.includes('How many?')) ? true : undefined,
    );
    const headers = await run(['s-nail', '-:/', '-R', '-H', '-f', boxOf('ann')], { env: env() });
    assert.match(headers.output, /coder@.*Re: Ask by s-nail/);
    // A reply in s-nail. Mails of one second have no order there.
    const replied = await run(
      ['s-nail', '-#', '-:/', '-Sv15-compat', `-Smta=file://${SENDMAIL}`, '-f', boxOf('ann')],
      { stdin: 'reply /Ask by s-nail\nSeven.\n~.\nxit\n', env: asAnn() },
    );
    const ended = await eventually('the answer', async () => {
      const { task: now } = await world.agentd.getTask({ params: { id: task.id } });
      return now.ended_at === null ? undefined : now;
    }).catch((error: unknown) => {
      throw new Error(replied.output, { cause: error });
    });
    assert.match(String(ended.result), /Seven/);
    await eventually('the result', async () =>
      filesOf('ann').some((file) => /^Then it is .*Seven/m.test(file)) ? true : undefined,
    );
    const printed = await run(['s-nail', '-:/', '-R', '-f', boxOf('ann')], {
      stdin: 'type *\nxit\n',
      env: env(),
    });
    assert.match(printed.output, /Then it is .*Seven/);
  });

  it('[K25] mutt: sends a file to an alias; agent and person get it', async () => {
    const rc = join(base, 'muttrc');
    writeFileSync(
      rc,
      `set sendmail="${SENDMAIL} -oem -oi"\nset copy=no\nset from="ann@example.org"\n`,
    );
    const file = join(base, 'reeds.txt');
    writeFileSync(file, 'Forty reeds.\n');
    const sent = await run(
      ['mutt', '-n', '-F', rc, '-s', 'By mutt: héron', '-a', file, '--', 'duo@localhost'],
      { stdin: 'See the file.\n', env: asAnn() },
    );
    assert.equal(sent.code, 0, sent.output);
    const task = await taskOf(/^By mutt: héron\n\nSee the file\.$/);
    const [input] = task.inputs;
    const { artifact, text } = await world.agentd.getArtifact({
      params: { id: input!.id as never },
      query: {},
    });
    assert.deepEqual([artifact.name, text?.trimEnd()], ['reeds.txt', 'Forty reeds.']);
    await eventually('the copy', async () =>
      filesOf('ann').some((mail) => mail.includes('reeds.txt')) ? true : undefined,
    );
  });

  it('the command for sendmail ends as sendmail does', async () => {
    const send = (args: string[], stdin: string, more: Record<string, string> = {}) =>
      run([SENDMAIL, ...args], { stdin, env: { ...env(), ...more } });
    const cron = 'From: root (Cron Daemon)\nTo: root\nSubject: Cron <root@x> ls\n\nOutput.\n';
    const fromCron = await send(
      ['-FCronDaemon', '-i', '-odi', '-oem', '-oi', '-t', '-f', 'root'],
      cron,
    );
    assert.equal(fromCron.code, 0, fromCron.output);
    await eventually('the mail of cron', async () =>
      filesOf('operator').some((mail) => mail.includes('Cron <root@x> ls')) ? true : undefined,
    );
    assert.equal((await send(['nobody'], 'x\n')).code, 67);
    assert.equal((await send([], 'x\n')).code, 64);
    assert.equal((await send(['-bs'], '')).code, 64);
    assert.equal((await send(['coder'], 'x\n', { AGENTD_STATE: join(base, 'none') })).code, 75);
    const forged = 'From: Ann <ann@agentd.localhost>\n\nHello.\n';
    assert.equal((await send(['operator'], forged)).code, 77);
    assert.equal((await send(['operator'], forged, { AGENTD_PERSON: 'ann' })).code, 0, 'control');
  });

  it('Dovecot serves the mailbox by IMAP, and what is read there is read here', async () => {
    const box = boxOf('ann');
    const { uid } = statSync(box);
    // Dovecot runs as the owner of the mailbox, who must get to it.
    chmodSync(base, 0o711);
    const conf = join(base, 'dovecot.conf');
    writeFileSync(
      conf,
      `mail_location = maildir:${box}\nlog_path = /dev/stderr\nssl = no\nfirst_valid_uid = 0\n`,
    );
    const commands =
      'a SELECT INBOX\r\nb FETCH 1:* (FLAGS BODY[HEADER.FIELDS (SUBJECT)])\r\nc FETCH 1 BODY[TEXT]\r\nd LOGOUT\r\n';
    const ran = await run(['/usr/lib/dovecot/imap', '-c', conf], {
      stdin: commands,
      env: { USER: 'ann', HOME: box },
      ...(process.getuid?.() === 0 ? { uid } : {}),
    });
    assert.match(ran.output, /\* [1-9]\d* EXISTS/);
    assert.match(ran.output, /Subject: Re: Ask by s-nail/);
    assert.match(ran.output, /^c OK/m);
    const { mails } = await world.maild.listMail({ query: { box: 'ann' } });
    assert.equal(mails[0]?.is_read, true);
  });
});
