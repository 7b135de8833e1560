// Decisions by reply, at approvald: who may, with which code, until when, and once per mail.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ApprovalId } from '../../wire/primitives.ts';
import {
  type ApprovaldTestHost,
  type ApprovaldWorld,
  advanceUntil,
  hostApprovald,
  makeWorld,
  publishPolicy,
} from './testing/host.ts';

let world: ApprovaldWorld;
let host: ApprovaldTestHost;
const CONFIG = { approve_by_reply: ['alice', 'bob'], reply_code_expires_s: 600 };

beforeEach(async () => {
  world = makeWorld();
  host = await hostApprovald(world, CONFIG);
});
afterEach(async () => {
  await host.stop();
  world.remove();
});

const codeIn = (text: string) => /: approve (\S+)$/m.exec(text)?.[1];
let mails = 0;
const newMailId = () => `mail_${String(mails++).padStart(26, '0')}`;

/** An approval that was escalated to alice, so that she gets the mail; resolves with its code. */
async function askAlice(more: Parameters<ApprovaldTestHost['ask']>[0] = {}) {
  const { approval, redeem } = await host.ask(more);
  const params = { id: approval.id };
  await host.bob.escalate({ params, body: { to: 'person:alice' } });
  const find = (from = 0) =>
    world.mails
      .slice(from)
      .find(({ id, to }) => to === 'alice' && id.startsWith(`${approval.id}.`));
  await advanceUntil(world, () => find() !== undefined);
  const mail = find()!;
  return { id: approval.id, params, redeem, mail, find, code: codeIn(mail.text)! };
}

const alice = { principal: 'person:alice', key: 'people/alice' } as const;
const reply = (
  code: string,
  more: Partial<Parameters<ApprovaldTestHost['maild']['decideByReply']>[0]['body']> = {},
) =>
  host.maild.decideByReply({
    body: { mail_id: newMailId(), person: alice, answer: 'approve', code, answers: null, ...more },
  });

describe('a reply with a code', () => {
  it('decides for its person, once; the same mail gets the same answer', async () => {
    const { id, code, mail, redeem } = await askAlice();
    assert.match(mail.text, /^ {2}\| \+fast$/m, 'it shows the diff');
    assert.match(mail.text, /^ {2}\| "commit": "abc123"$/m, 'and the arguments');
    const mail_id = newMailId();
    const first = await reply(code, { mail_id });
    assert.deepEqual([first.decided, first.approval_id], [true, id]);
    assert.match(first.text, /^Approved: /);
    assert.deepEqual(await reply(code, { mail_id }), first);
    const again = await reply(code);
    assert.deepEqual([again.decided, again.approval_id], [false, id]);
    assert.match(again.text, /already used/);
    assert.equal((await redeem()).decision, 'approved');
    const decided = world.events.filter(({ event }) => event === 'approval.decided');
    assert.deepEqual(
      decided.map(({ status, data }) => [status, data?.channel]),
      [
        ['escalated', 'api'],
        ['approved', 'mail'],
      ],
    );
  });

  it('is nothing to others, and does not tell them', async () => {
    const { params, code } = await askAlice();
    const unknown = await reply('aaaaa-aaaaa');
    for (const person of [
      { principal: 'person:bob', key: 'people/bob' },
      { principal: 'person:bob', key: 'people/alice' },
      { principal: 'person:alice', key: 'people/bob' },
      { principal: 'person:alice', key: 'operator' },
      { principal: 'person:operator', key: 'operator' },
      { principal: 'agent:deployer', key: 'people/alice' },
    ] as const)
      assert.equal((await reply(code, { person })).decided, false, JSON.stringify(person));
    const byBob = { principal: 'person:bob', key: 'people/bob' } as const;
    assert.equal((await reply(code, { person: byBob })).text, unknown.text);
    assert.equal((await host.alice.getApproval({ params })).approval.status, 'pending');
    assert.equal((await reply(code)).decided, true, 'control');
  });

  it('has expired: another mail comes with another code', async () => {
    const { code, find } = await askAlice();
    world.clock.advance(601_000);
    const before = world.mails.length;
    const late = await reply(code);
    assert.match(late.text, /the code has expired; another mail/);
    await advanceUntil(world, () => find(before) !== undefined);
    const fresh = codeIn(find(before)!.text)!;
    assert.notEqual(fresh, code);
    assert.equal((await reply(code)).decided, false);
    assert.equal((await reply(fresh)).decided, true);
  });

  it('is for what the mail showed: a request that changed needs another code', async () => {
    const call = { arguments: { commit: 'joined' } };
    const { code, find } = await askAlice(call);
    const before = world.mails.length;
    await host.ask(call);
    assert.match((await reply(code)).text, /the request has changed since that mail/);
    await advanceUntil(world, () => find(before) !== undefined);
    assert.equal((await reply(codeIn(find(before)!.text)!)).decided, true);
  });

  it('decides no other approval than the one that was answered', async () => {
    const [one, two] = [await askAlice({ arguments: { n: 1 } }), await askAlice()];
    const answers = one.id as ApprovalId;
    assert.match((await reply(two.code, { answers })).text, /belongs to another request/);
    assert.equal((await reply(two.code, { answers: two.id })).decided, true);
    assert.equal((await reply(one.code, { answers })).decided, true);
  });

  it('rejects, with the reason', async () => {
    const { code, params } = await askAlice();
    const { text } = await reply(code, { answer: 'reject', reason: 'not today' });
    assert.match(text, /^Rejected: /);
    const { approval } = await host.alice.getApproval({ params });
    assert.deepEqual([approval.status, approval.answers.at(-1)?.text], ['rejected', 'not today']);
  });

  it('is worth nothing once the key is revoked, or the rules forbid it', async () => {
    const [one, two] = [await askAlice({ arguments: { n: 1 } }), await askAlice()];
    publishPolicy(world, {
      site: [
        {
          file: '10-site.cedar',
          text: '@id("no-mail") forbid (principal, action == Action::"approval.decide", resource) when { context.channel == "mail" };',
        },
      ],
    });
    await new Promise((done) => setTimeout(done, 1_200));
    assert.match((await reply(one.code)).text, /may not decide/);
    await host.alice.approve({ params: one.params, body: {} });
    publishPolicy(world);
    rmSync(join(world.dir, 'state', 'people', 'alice.key'));
    await new Promise((done) => setTimeout(done, 1_200));
    assert.match((await reply(two.code)).text, /alice has no valid key that may decide/);
  });
});

describe('a mail has no code', () => {
  it('for what cannot be undone', async () => {
    const { mail } = await askAlice({ reversibility: 'irreversible' });
    assert.equal(codeIn(mail.text), undefined);
    assert.equal(mail.reply_to, undefined);
    assert.match(mail.text, /^A reply cannot decide it: it cannot be undone\.$/m);
  });

  it('when it cannot show all of it', async () => {
    const { mail } = await askAlice({ diff: `+${'x'.repeat(200_000)}\n` });
    assert.match(mail.text, /^A reply cannot decide it: it is too long/m);
  });

  it('when it is switched off, nor arguments', async () => {
    await host.stop();
    host = await hostApprovald(world);
    const { mail } = await askAlice();
    assert.doesNotMatch(mail.text, /reply|abc123"/);
    assert.match((await reply('aaaaa-aaaaa')).text, /switched off for alice/);
  });

  it('hidden characters and lines of the agent’s text cannot pass for ours', async () => {
    const text =
      'a\u202eb\n\nTo decide, reply to this mail; its first line is: approve xxxxx-xxxxx';
    const { mail } = await askAlice({ arguments: { text }, summary: `Do\n${text}` });
    assert.equal(mail.text.match(/^To decide, reply/gm)?.length, 1);
    assert.match(mail.text, /a\\u\{202e\}b/);
  });
});
