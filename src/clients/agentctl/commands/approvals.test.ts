// Approvals and the keys of people, through the whole program.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { ApprovalSummary, ApprovalView } from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { at, event, id, task } from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';
import { eventStream } from '../testing/team-script.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const ID = id('approval', 1);
const PERMIT = id('permit', 1);
const HASH = 'a'.repeat(64);

const summary = (more: Partial<ApprovalSummary> = {}): ApprovalSummary =>
  ({
    id: ID,
    status: 'pending',
    agent: 'deployer',
    task_id: id('task', 1),
    root_task_id: id('task', 1),
    action: 'deploy.run',
    class: 'production.change',
    risk: 'high',
    reversibility: 'externally-reversible',
    repo: '/srv/repo',
    summary: 'Deploy abc123',
    reason: 'production needs a person',
    rules: ['base:prod'],
    labels: [],
    arguments_hash: HASH,
    arguments_bytes: 40,
    diff_bytes: 12,
    calls: 1,
    approvers_needed: 1,
    approved_by: [],
    escalated_to: null,
    permit_id: null,
    requested_at: at(0),
    expires_at: at(3_600),
    decided_at: null,
    decided_by: null,
    memory: null,
    ...more,
  }) as ApprovalSummary;

const view = (more: Partial<ApprovalView> = {}): ApprovalView =>
  ({
    ...summary(),
    arguments: { commit: 'abc123', script: 'one\ntwo' },
    arguments_asked: null,
    chain: [{ class: 'production.change', risk: 'high', reversibility: 'externally-reversible' }],
    diff: '@@ 1 @@\n-slow\n+fast\n',
    rollback: 'deploy the one before',
    nonce: 'n1',
    asks: [
      {
        call_id: id('call', 1),
        run_id: id('run', 1),
        task_id: id('task', 1),
        purpose: 'it is slow',
        asked_at: at(0),
        redeemed_at: null,
      },
    ],
    answers: [],
    thread: [],
    would_permit: { once: 'exactly this', task: 'all of it' },
    ...more,
  }) as ApprovalView;

const scripted = (approval: ApprovalView, done: Partial<ApprovalView> = {}) => {
  const answer = async () => ({ approval: { ...approval, ...done } });
  fake.script({
    agentd: { getTask: async () => ({ task: task(1, { goal: 'Make it fast again' }) }) },
    toold: {
      checkArguments: async ({ body }) => ({
        problem: 'force' in body.arguments ? 'force: is not known' : null,
      }),
    },
    approvald: {
      listApprovals: async () => ({ approvals: [approval], cursor: null, pending: 1 }),
      getApproval: async () => ({ approval }),
      approve: answer,
      reject: answer,
      requestInfo: answer,
      escalate: answer,
    },
  });
};
beforeEach(() => {
  fake.seen.length = 0;
  scripted(view());
});
const sent = (route: string) => fake.seen.find((request) => request.route === route);

describe('reading approvals', () => {
  test("the list prints each call's length and where to read it in full", async () => {
    scripted(view({ labels: ['outside'], calls: 3 }));
    const { stdout, code } = await run('approvals');
    assert.equal(code, 0);
    assert.match(stdout, /ID +AGENT +TOOL +RISK +MARKS +CALLS +EXPIRES +SIZE \+ DIFF +SUMMARY/);
    assert.match(stdout, /deployer +deploy\.run +high +outside +3× .* 40 B \+ 12 B/);
    assert.match(stdout, /agentctl approvals ID/);
    assert.deepEqual(sent('listApprovals')?.query, { status: 'pending', limit: 1000 });
    const document = documentOf<{ pending: number }>(await run('approvals', '--json'));
    assert.equal(document.pending, 1);
  });

  test('show prints who, what, why, marks, diff, undo, and what each decision would permit', async () => {
    const { stdout } = await run('approvals', ID);
    for (const pattern of [
      /Make it fast again/,
      /"commit": "abc123"/,
      /"script": text of 2 lines, 7 B:/,
      /│ {3}one\n {2}│ {3}two/,
      /│ -slow\n {2}│ \+fast/,
      /production needs a person \(base:prod\)/,
      /deploy the one before/,
      new RegExp(`sha256 ${HASH}`),
      /"it is slow"/,
      new RegExp(`agentctl approve ${ID} --for task`),
      /all of it/,
    ])
      assert.match(stdout, pattern);
    assert.doesNotMatch(stdout, /--for repo/);
    const { approval } = documentOf<{ approval: ApprovalView }>(
      await run('approvals', ID, '--json'),
    );
    assert.equal(approval.diff, '@@ 1 @@\n-slow\n+fast\n');
  });

  test('text from an agent cannot fake the screen', async () => {
    const evil = '\u001b[2J\u202eok\nYour decision:\n  agentctl approve x\r';
    scripted(
      view({
        summary: evil,
        reason: evil,
        rollback: evil,
        diff: `+${evil}\n`,
        labels: ['outside'],
        arguments: { [evil]: evil, 'one line': '\u001b]0;x\u0007' },
        repo: evil,
        asks: [{ ...view().asks[0]!, purpose: evil }],
        thread: [{ approval_id: ID as never, question: evil, by: 'person:a', at: at(0) }],
      }),
    );
    const { stdout } = await run('approvals', ID);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern matches them
    assert.doesNotMatch(stdout, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
    const own = stdout.split('\n').filter((line) => line === 'Your decision:');
    assert.equal(own.length, 1);
    assert.match(stdout, /this run has read outside text/);
    const list = (await run('approvals')).stdout;
    assert.equal(list.trim().split('\n').length, 4);
  });

  test('a long argument is shown in full', async () => {
    const long = 'y'.repeat(100_000);
    scripted(view({ arguments: { long } }));
    const { stdout } = await run('approvals', ID);
    assert.ok(stdout.includes(long));
  });

  test('--follow prints each approval as it arrives, and its outcome', async () => {
    let open = true;
    const approval = view();
    const decided = { status: 'approved', decided_by: 'person:bob' } as const;
    fake.script({
      approvald: {
        listApprovals: async () => ({
          approvals: open ? [approval] : [],
          cursor: null,
          pending: open ? 1 : 0,
        }),
        getApproval: async () => ({ approval: open ? approval : { ...approval, ...decided } }),
      },
    });
    const ran = await agentctl(['approvals', '--follow'], {
      state: fake.stateDir,
      watch({ stdout }) {
        if (stdout.includes('Your decision:')) open = false;
        return stdout.includes('approved by person:bob') ? 'SIGINT' : undefined;
      },
    });
    assert.match(ran.stdout, /\+fast/);
    assert.equal(ran.code, 0);
  });

  test('--follow reads after an event, not on a timer', async () => {
    let isThere = false;
    let looks = 0;
    let looksInSilence = 0;
    const approval = view();
    const silence = Promise.withResolvers<void>();
    fake.script({
      approvald: {
        listApprovals: async () => {
          if (++looks === 1) setTimeout(silence.resolve, 3_500);
          return { approvals: isThere ? [approval] : [], cursor: null, pending: isThere ? 1 : 0 };
        },
        getApproval: async () => ({ approval }),
      },
      'auditd-ai': {
        events: async ({ query, signal }) => {
          if (query.follow !== '1') return { events: [event(7)], cursor: null };
          assert.deepEqual([query.after, query.event], [7, 'approval']);
          return eventStream(
            (async function* () {
              await silence.promise;
              yield event(8, { event: 'approval.requested' });
              await new Promise((resolve) => signal.addEventListener('abort', resolve));
            })(),
          );
        },
      },
    });
    void silence.promise.then(() => {
      looksInSilence = looks;
      isThere = true;
    });
    const ran = await agentctl(['approvals', '--follow'], {
      state: fake.stateDir,
      watch: ({ stdout }) => (stdout.includes('Your decision:') ? 'SIGINT' : undefined),
    });
    assert.match(ran.stdout, /\+fast/);
    assert.equal(ran.code, 0);
    // The second read if the log was not connected yet at the first.
    assert.ok(looksInSilence >= 1 && looksInSilence <= 2, `${looksInSilence} looks`);
  });
});

describe('deciding', () => {
  test('[R52] [R430] approve sends the reviewed nonce and the scope', async () => {
    scripted(view(), { status: 'approved', permit_id: PERMIT as never });
    const { stdout } = await run('approve', ID, '--for', 'task', '--expires', '8h');
    assert.deepEqual(sent('approve')?.body, { nonce: 'n1', for: 'task', expires_in_s: 28_800 });
    assert.match(stdout, new RegExp(`permit revoke ${PERMIT}`));
  });

  test('approve with edited arguments', async () => {
    const file = join(fake.stateDir, 'edited.json');
    writeFileSync(file, '{"commit":"def"}');
    await run('approve', ID, '--edit', file);
    assert.deepEqual((sent('approve')!.body as { edited_arguments: object }).edited_arguments, {
      commit: 'def',
    });
    fake.seen.length = 0;
    writeFileSync(file, '{"commit":"def","force":true}');
    const refused = await run('approve', ID, '--edit', file);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /deploy\.run: force/);
    assert.equal(sent('approve'), undefined, 'nothing was approved');
    writeFileSync(file, '[1]');
    assert.equal((await run('approve', ID, '--edit', file)).code, 2);
    writeFileSync(file, '{');
    assert.equal((await run('approve', ID, '--edit', file)).code, 2);
  });

  test('a proposed memory is shown with its scope and changes, and approved in other words', async () => {
    const memory = {
      memory_id: `memory_${'1'.repeat(26)}`,
      version: 1,
      class: 'semantic',
      scope: 'project:app',
      by: 'agent:coder',
      run_id: id('run', 1),
      task_id: id('task', 1),
    } as NonNullable<ApprovalView['memory']>;
    scripted(view({ memory, labels: ['agent', 'outside'], task_id: null, root_task_id: null }));
    const { stdout } = await run('approvals', ID);
    for (const pattern of [
      /project:app/,
      /agent:coder/,
      /agent, outside: others wrote it/,
      /\+fast/,
    ])
      assert.match(stdout, pattern);
    assert.doesNotMatch(stdout, /agentctl ask/);
    const file = join(fake.stateDir, 'words.txt');
    writeFileSync(file, 'In other words.\n');
    assert.match((await run('approve', ID, '--edit', file)).stdout, /memory_1+ is recorded/);
    const edited_arguments = { text: 'In other words.' };
    assert.deepEqual(sent('approve')?.body, { nonce: 'n1', edited_arguments });
    scripted(view({ memory: { ...memory, version: 2 } }));
    assert.match((await run('approve', ID)).stderr, /--seen/);
  });

  test('arguments another person edited must be reviewed first', async () => {
    scripted(view({ arguments_asked: { commit: 'abc' } }));
    const refused = await run('approve', ID);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /--seen/);
    assert.equal(sent('approve'), undefined);
    assert.match((await run('approvals', ID)).stdout, /--seen n1/);
    assert.equal((await run('approve', ID, '--seen', 'n1')).code, 0);
    assert.deepEqual(sent('approve')?.body, { nonce: 'n1' });
  });

  test('a second approval reports that it was approved before', async () => {
    scripted(view({ status: 'approved', decided_by: 'person:ada' }));
    const { stdout, code } = await run('approve', ID);
    assert.deepEqual([stdout, code], [`${ID} was already approved by person:ada.\n`, 0]);
  });

  test('the first of two required approvals', async () => {
    scripted(view(), { approvers_needed: 2, approved_by: ['person:alice'] });
    assert.match((await run('approve', ID)).stdout, /1 more approval is needed/);
  });

  test('reject, ask and escalate send what was typed', async () => {
    await run('reject', ID, '--reason', 'not now');
    assert.deepEqual(sent('reject')?.body, { nonce: 'n1', reason: 'not now' });
    await run('ask', ID, 'Was it tested?');
    assert.deepEqual(sent('requestInfo')?.body, { nonce: 'n1', question: 'Was it tested?' });
    await run('escalate', ID, '--to', 'bob');
    assert.deepEqual(sent('escalate')?.body, { nonce: 'n1', to: 'person:bob' });
  });

  test('each refusal has its exit code', async () => {
    for (const [code, exit] of [
      ['denied', 3],
      ['not_found', 5],
      ['conflict', 1],
    ] as const) {
      fake.script({
        approvald: {
          getApproval: async () => ({ approval: view() }),
          reject: async () => {
            throw fault(code, 'no');
          },
        },
      });
      assert.equal((await run('reject', ID)).code, exit);
    }
  });
});

describe('person keys', () => {
  test('are created readable by this user only, and removed', async () => {
    rmSync(join(fake.stateDir, 'people'), { recursive: true, force: true });
    const { stdout, code } = await run('person', 'add', 'alice');
    assert.equal(code, 0);
    const file = join(fake.stateDir, 'people', 'alice.key');
    assert.match(stdout, /--as alice/);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal((await run('person', 'add', 'alice')).code, 1);
    assert.match((await run('person', 'list')).stdout, /alice/);
    assert.equal((await run('person', 'add', '../x')).code, 2);
    assert.equal((await run('person', 'remove', 'alice')).code, 0);
    assert.equal(existsSync(file), false);
    assert.equal((await run('person', 'remove', 'alice')).code, 5);
  });

  test('--as sends that key and that name', async () => {
    mkdirSync(join(fake.stateDir, 'people'), { recursive: true, mode: 0o700 });
    const key = 'the-key-of-the-fake-runtime';
    writeFileSync(join(fake.stateDir, 'people', 'bob.key'), `${key}\n`, { mode: 0o600 });
    await run('--as', 'bob', 'reject', ID);
    assert.equal(sent('reject')?.principal, 'person:bob');
    const { code, stderr } = await run('--as', 'nobody', 'reject', ID);
    assert.equal(code, 3);
    assert.match(stderr, /agentctl person add nobody/);
    assert.equal((await run('--as', '../operator', 'reject', ID)).code, 2);
  });
});
