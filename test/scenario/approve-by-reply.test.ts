// Approving by reply: a person who is switched on and has a key of their own decides by the first
// line of a reply to the request. Everything else decides nothing, each with what does.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import type { ApprovalView } from '../../src/wire/approvald.ts';
import { allEvents } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  ROOT,
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
import { manifestOf, refusedWith, scriptedModels } from '../support/scripted-world.ts';
import { connectSmtp, sendSmtp, writeMail } from '../support/smtp.ts';

const ASKS =
  '{ replicas: 8, tools: { allow: [test.tools] }, approvals: { required: [test.echo, test.count_effect] } }';
const RULES = `
@id("nobody-approves-deployer-by-mail")
@why("its calls are decided at a terminal")
forbid (principal, action == Action::"approval.decide", resource)
when { context.channel == "mail" && context.agent == "deployer" };
@id("outside") permit (principal is External, action == Action::"task.delegate", resource);
@id("outside-mail") permit (principal is External, action == Action::"message.send", resource);
`;
const CODE = /approve ([a-z0-9]{5}-[a-z0-9]{5})$/m;

type Login = readonly [name: string, key: string];
type Asked = { id: string; code: string; mailId: string; taskId: string; word: string };

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

for (const mode of ['embedded', 'split'] as const)
  describe(`approving by reply, ${mode}`, () => {
    const base = freshDir();
    const loginOf = (name: string): Login => [name, name.repeat(32)];
    let world: TestRuntime;
    let model: ScriptedModel;
    let [smtpPort, lmtpPort] = [0, 0];
    let made = 0;
    before(async () => {
      const state = join(base, 'state');
      mkdirSync(join(state, 'policies'), { recursive: true, mode: 0o700 });
      writeFileSync(join(state, 'policies', 'mail.cedar'), RULES);
      writePersonKey(state, 'ann');
      writePersonKey(state, 'dora');
      writePersonKey(state, 'rita', 'reader');
      writePersonKey(state, 'paul', 'approver');
      [smtpPort, lmtpPort] = [await freePort(), await freePort()];
      model = await startScriptedModel();
      world = await startRuntime({
        base,
        mode,
        agents: { worker: manifestOf('worker', ASKS), deployer: manifestOf('deployer', ASKS) },
        config: JSON.stringify({
          modeld: scriptedModels(model.url),
          toold: { test_tools: true },
          maild: { smtp_port: smtpPort, lmtp_port: lmtpPort },
          approvald: { approve_by_reply: ['ann', 'paul', 'rita', 'kim'] },
        }),
      });
    });
    after(async () => {
      await world?.remove();
      await model?.close();
      rmSync(base, { recursive: true, force: true });
    });

    const socket = () => ({ path: join(world.runtimeDir, 'maild', 'smtp', 'smtp.sock') });
    const filesOf = (box: string): string[] =>
      ['new', 'cur'].flatMap((part) => {
        const dir = join(world.stateDir, 'mail', box, part);
        try {
          return readdirSync(dir).map((name) => readFileSync(join(dir, name), 'utf8'));
        } catch {
          return [];
        }
      });
    const mailOf = (box: string, ...texts: (RegExp | string)[]) =>
      eventually(`mail with ${texts.join(' and ')} for ${box}`, async () =>
        filesOf(box).find((file) =>
          texts.every((text) => (typeof text === 'string' ? file.includes(text) : text.test(file))),
        ),
      );
    const idOf = (file: string) => /^Message-ID: <(.*)>$/m.exec(file)![1]!;
    const viewOf = async (id: string): Promise<ApprovalView> =>
      (await world.approvald.getApproval({ params: { id: id as never } })).approval;

    /** A task of this person whose call waits; resolves with the mail about it. */
    const request = async (who: Login, { agent = 'worker', tool = 'test.echo' } = {}) => {
      const word = `Heron${made++}`;
      const args = tool === 'test.echo' ? { text: `${word} is here` } : { key: word };
      model.on(`Call ${word}`, says(call(tool, args)), ({ results }) => finishes(results.join()));
      const mail = writeMail({ Subject: `Call ${word}` }, 'Please.\n');
      const sent = await sendSmtp(socket(), { auth: who, to: `${agent}@localhost`, mail });
      assert.match(sent, /^250/);
      const { id: taskId } = await eventually(`the task about ${word}`, async () =>
        (await world.agentd.listTasks({ query: { limit: 500 } })).tasks.find(({ goal }) =>
          goal.startsWith(`Call ${word}\n`),
        ),
      );
      const file = await mailOf(who[0], taskId, 'See it whole: agentctl approvals');
      const id = /agentctl approvals (approval_\w+)/.exec(file)![1]!;
      return { file, id, word, taskId };
    };
    const ask = async (who: Login = loginOf('ann')): Promise<Asked & { file: string }> => {
      const { file, id, taskId, word } = await request(who);
      const code = CODE.exec(file)?.[1];
      assert.ok(code !== undefined, `no code in ${file}`);
      return { file, id, taskId, word, code, mailId: idOf(file) };
    };
    const replyTo = (asked: Pick<Asked, 'mailId'>, body: string, fields = {}) =>
      writeMail({ Subject: 'Re: approval', 'In-Reply-To': `<${asked.mailId}>`, ...fields }, body);
    const send = (mail: string, auth: Login | null = loginOf('ann'), from?: string) =>
      sendSmtp(socket(), {
        ...(auth === null ? {} : { auth }),
        ...(from === undefined ? {} : { from }),
        to: 'approvals@agentd.localhost',
        mail,
      });
    const assertPending = async ({ id }: Pick<Asked, 'id'>) =>
      assert.equal((await viewOf(id)).status, 'pending');
    /** The positive control: the same approval, as it should be. */
    const approves = async (asked: Asked) => {
      await assertPending(asked);
      assert.match(await send(replyTo(asked, `approve ${asked.code}\n`)), /^250/);
      assert.equal((await taskEnded(world, asked.taskId)).status, 'completed');
      assert.equal((await viewOf(asked.id)).status, 'approved');
    };
    const outcome = (who: string, text: RegExp) =>
      mailOf(who, /^Your reply decided nothing:$/m, text);

    it('the first line of a reply approves, and the person hears of it in the thread', async () => {
      const asked = await ask();
      assert.match(asked.file, /^From: worker <approvals@agentd\.localhost>$/m);
      assert.match(asked.file, /^ {2}\| "text": "Heron\d+ is here"$/m, 'shown whole');
      const body = `approve ${asked.code}\n\nThanks.\n\nOn Monday, worker wrote:\n> approve it\n-- \nAnn\n`;
      assert.match(await send(replyTo(asked, body)), /^250/);
      const task = await taskEnded(world, asked.taskId);
      assert.match(String(task.result), /is here/);
      const { status, answers } = await viewOf(asked.id);
      assert.equal(status, 'approved');
      assert.deepEqual(
        answers.map(({ by, answer, channel }) => [by, answer, channel]),
        [['person:ann', 'approve', 'mail']],
      );
      const told = await mailOf('ann', asked.id, /^It was decided by your reply\.$/m);
      assert.match(told, /^References: /m);
      const decided = await eventually('the event', async () =>
        (await allEvents(world)).find(
          ({ event, data }) => event === 'approval.decided' && data?.approval_id === asked.id,
        ),
      );
      assert.deepEqual([decided.principal, decided.data?.channel], ['person:ann', 'mail']);
      assert.doesNotMatch(JSON.stringify(await allEvents(world)), new RegExp(asked.code));
    });

    it('reject CODE and why: the agent hears why', async () => {
      const asked = await ask();
      await send(replyTo(asked, `Reject ${asked.code.toUpperCase()} not on a Friday\n`));
      await taskEnded(world, asked.taskId);
      const { status, answers } = await viewOf(asked.id);
      assert.deepEqual([status, answers[0]?.text], ['rejected', 'not on a Friday']);
      await mailOf('ann', asked.id, /^Rejected: /m);
    });

    it('a code is used once: the same mail again, and another with the same code', async () => {
      const asked = await ask();
      const mail = replyTo(asked, `approve ${asked.code}\n`);
      assert.match(await send(mail), /^250/);
      await taskEnded(world, asked.taskId);
      assert.match(await send(mail), /^250/, 'recognized, and taken once');
      const open = await ask();
      assert.match(await send(replyTo(asked, `approve ${asked.code}\n`)), /^250/);
      await outcome('ann', /the code was already used/);
      assert.equal((await viewOf(asked.id)).answers.length, 1);
      await approves(open);
    });

    it('replayed under another envelope it is another sender', async () => {
      const asked = await ask();
      const mail = replyTo(asked, `approve ${asked.code}\n`);
      assert.match(await send(mail, null, 'ann@agentd.localhost'), /^550 5\.7\.1/);
      assert.match(await send(mail, loginOf('paul')), /^250/);
      await outcome('paul', /there is no such code for you/);
      assert.match(await send(mail, loginOf('rita')), /^550 5\.7\.1 the key of rita may only read/);
      await approves(asked);
    });

    it('a forged From is nobody, on every way in', async () => {
      const asked = await ask();
      const fields = { From: 'Ann <ann@agentd.localhost>', Sender: 'ann@agentd.localhost' };
      const mail = replyTo(asked, `approve ${asked.code}\n`, fields);
      const to = 'approvals@agentd.localhost';
      const from = 'ann@agentd.localhost';
      for (const where of [socket(), { port: smtpPort }])
        assert.match(await sendSmtp(where, { from, to, mail }), /^550 5\.7\.1 decisions are taken/);
      const byLmtp = { from, to, mail, hello: 'LHLO test' };
      assert.match(await sendSmtp({ port: lmtpPort }, byLmtp), /^550 5\.7\.1 decisions are taken/);
      const submit = {
        to: [to],
        reads_recipients: false,
        raw_base64: Buffer.from(mail).toString('base64'),
      };
      const { message } = await refusedWith('denied', world.maild.submitMail({ body: submit }));
      assert.match(message, /tester has no key of their own/);
      const operator = ['ann', world.operatorKey] as const;
      assert.match(await send(mail, operator), /^535 5\.7\.8 ann has a personal key/);
      assert.match(await send(mail, loginOf('paul')), /^550 5\.7\.1 the field From says ann/);
      const viaPort = { auth: loginOf('ann'), to, mail };
      assert.match(await sendSmtp({ port: smtpPort }, viaPort), /^250/, 'control: with the key');
      assert.equal((await taskEnded(world, asked.taskId)).status, 'completed');
    });

    it('a person without a key of their own decides nothing', async () => {
      const asked = await ask();
      const mail = replyTo(asked, `approve ${asked.code}\n`);
      const kim = ['kim', world.operatorKey] as const;
      assert.match(await send(mail, kim), /^550 5\.7\.1 kim has no key of their own/);
      await approves(asked);
    });

    it('only the first line that is the sender’s own counts', async () => {
      const asked = await ask();
      const { code } = asked;
      const html = { 'MIME-Version': '1.0', 'Content-Type': 'text/html' };
      const mails = [
        replyTo(asked, `> approve ${code}\n`),
        replyTo(asked, `On Monday, worker wrote:\n> approve ${code}\n`),
        replyTo(asked, `-----Original Message-----\napprove ${code}\n`),
        replyTo(asked, `-- \napprove ${code}\n`),
        replyTo(asked, `What is this?\napprove ${code}\n`),
        replyTo(asked, `approve ${code} if the tests pass\n`),
        replyTo(asked, `Please approve ${code}\n`),
        replyTo(asked, asked.file.slice(asked.file.indexOf('\n\n') + 2)),
        replyTo(asked, `<blockquote>approve ${code}</blockquote>`, html),
        replyTo(asked, '\n', { Subject: `approve ${code}` }),
      ];
      const before = filesOf('ann').length;
      for (const mail of mails) assert.match(await send(mail), /^250/);
      await eventually('a mail back for each', async () =>
        filesOf('ann').length >= before + mails.length ? true : undefined,
      );
      await outcome('ann', /Its first line is neither/);
      const quotedFirst = `On Monday, worker wrote:\n> approve what?\n\n`;
      await assertPending(asked);
      assert.match(await send(replyTo(asked, `${quotedFirst}approve ${code}\n`)), /^250/);
      assert.equal((await taskEnded(world, asked.taskId)).status, 'completed', 'control');
    });

    it('a code decides what it was made for, and nothing else', async () => {
      const [one, two] = [await ask(), await ask()];
      assert.match(await send(replyTo(one, `approve ${two.code}\n`)), /^250/);
      await outcome('ann', /belongs to another request/);
      await assertPending(one);
      await approves(two);
      await assertPending(one);
      await approves(one);
    });

    it('no header and no bare line end smuggles a decision in', async () => {
      const asked = await ask();
      const decision = `approve ${asked.code}`;
      const injected = `Subject: x\r\n\r\n${decision}`;
      const raws = [
        `Subject: x\r\n\r\nHello.\n.\nMAIL FROM:<ann@agentd.localhost>\nRCPT TO:<approvals>\nDATA\n\n${decision}\r\n.\r\n`,
        `Subject: x\n\n${decision}\r\n.\r\n`,
        `Subject: x\r\n\r\nHello.\r.\r${decision}\r\n.\r\n`,
        `From: a@b\r\n${injected.replace('Subject', 'From')}\r\n.\r\n`,
      ];
      for (const raw of raws) {
        const session = await connectSmtp(socket());
        const login = Buffer.from(`\0${loginOf('paul').join('\0')}`).toString('base64');
        for (const step of [
          'EHLO t',
          `AUTH PLAIN ${login}`,
          'MAIL FROM:<x@y>',
          'RCPT TO:<approvals@localhost>',
          'DATA',
        ])
          assert.match(await session.say(step), /^[23]/);
        session.write(raw);
        const reply = await session.reply();
        session.close();
        assert.match(reply, raw.startsWith('From: a@b') ? /^(250|554)/ : /^554 5\.6\.0/, raw);
      }
      await approves(asked);
    });

    it('what cannot be undone has no code, and its reason', async () => {
      const asked = await ask();
      const { file, id, taskId } = await request(loginOf('ann'), { tool: 'test.count_effect' });
      assert.doesNotMatch(file, CODE);
      assert.match(file, /^A reply cannot decide it: it cannot be undone\.$/m);
      assert.match(file, /^From: worker <worker@agentd\.localhost>$/m);
      await send(replyTo({ mailId: idOf(file) }, `approve ${asked.code}\n`));
      await outcome('ann', /belongs to another request/);
      await assertPending({ id });
      await approves(asked);
      const { nonce } = await viewOf(id);
      await world.approvald.reject({ params: { id: id as never }, body: { nonce } });
      await taskEnded(world, taskId);
    });

    it('switched off, the mail has no code, and a reply decides nothing', async () => {
      const asked = await ask();
      const { file, id } = await request(loginOf('dora'));
      assert.doesNotMatch(file, CODE);
      assert.doesNotMatch(file, /is here/, 'nor arguments');
      const mail = replyTo({ mailId: idOf(file) }, `approve ${asked.code}\n`);
      assert.match(await send(mail, loginOf('dora')), /^250/);
      await outcome('dora', /deciding by reply is switched off for dora/);
      await assertPending({ id });
      await approves(asked);
    });

    it('a rule about the channel forbids it, and only there', async () => {
      const { file, id, taskId } = await request(loginOf('ann'), { agent: 'deployer' });
      assert.doesNotMatch(file, CODE);
      assert.match(file, /A reply cannot decide it: .*its calls are decided at a terminal/);
      const { nonce } = await viewOf(id);
      await world.approvald.approve({ params: { id: id as never }, body: { nonce } });
      assert.equal((await taskEnded(world, taskId)).status, 'completed');
    });

    it('s-nail and mutt: their reply goes to the right address, and decides', async () => {
      const box = join(world.stateDir, 'mail', 'ann');
      const sendmail = join(ROOT, 'bin', 'agentctl-sendmail');
      const env = {
        PATH: process.env.PATH!,
        HOME: base,
        TERM: 'dumb',
        AGENTD_STATE: world.stateDir,
        AGENTD_PERSON: 'ann',
      };
      const byNail = await ask();
      const typed = `reply /${byNail.word}\napprove ${byNail.code}\n~.\nxit\n`;
      const nail = ['-#', '-:/', '-Sv15-compat', `-Smta=file://${sendmail}`, '-f', box];
      const nailed = spawnSync('s-nail', nail, { env, input: typed, encoding: 'utf8' });
      assert.equal((await taskEnded(world, byNail.taskId)).status, 'completed', nailed.stderr);
      const byMutt = await ask();
      // An editor that writes above what mutt quotes.
      const editor = join(base, 'editor');
      writeFileSync(
        editor,
        `#!/bin/sh\n{ echo "approve ${byMutt.code}"; echo; cat "$1"; } >"$1.new" && mv "$1.new" "$1"\n`,
        { mode: 0o755 },
      );
      const rc = join(base, 'muttrc');
      const settings = `set folder="${box}" sendmail="${sendmail} -oem -oi" editor="${editor}" copy=no quit=yes`;
      const keys = `<search>${byMutt.word}<enter><reply><send-message><quit>`;
      writeFileSync(
        rc,
        `${settings} fast_reply=yes include=yes autoedit=yes move=no\npush '${keys}'\n`,
      );
      const mutt = ['-qec', `mutt -n -F ${rc} -f ${box}`, '/dev/null'];
      const ran = spawnSync('script', mutt, { env, encoding: 'utf8', timeout: 30_000 });
      await eventually('the decision', async () =>
        (await viewOf(byMutt.id)).status === 'approved' ? true : undefined,
      ).catch((error: unknown) => {
        throw new Error(ran.stdout, { cause: error });
      });
    });

    it('mail that a program wrote decides nothing', async () => {
      const asked = await ask();
      const body = `approve ${asked.code}\n`;
      for (const fields of [
        { 'Auto-Submitted': 'auto-replied' },
        { 'List-Id': '<herons.example.org>' },
        { Precedence: 'bulk' },
      ])
        assert.match(await send(replyTo(asked, body, fields)), /^250/);
      assert.match(await send(replyTo(asked, body), loginOf('ann'), ''), /^250/);
      await approves(asked);
    });
  });
