// People who approve, with agentctl on a real runtime: they are notified by their own program and
// by a signed webhook, edit a request before they approve it, and decide in pairs.
import assert from 'node:assert/strict';
import { createHmac, createPublicKey, verify } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type AgentctlResult, agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { allEvents } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  ROOT,
  startRuntime,
  type TestRuntime,
  taskEnded,
  writableFile,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, manifestOf, reaches, scriptedModels } from '../support/scripted-world.ts';

type Post = { headers: http.IncomingHttpHeaders; body: string };
type Notice = { type: string; data: { approval: { id: string; action: string; summary: string } } };

/** Records the deployment in the workspace, the only evidence that it happened. */
const deployTool = (name: string) => `name: ${name}
description: Deploy a commit.
argv: [/bin/sh, -c, 'echo "$1" >> deployed; echo "deployed $1"', --, '{commit}']
input: { commit: { type: string, pattern: '[a-z0-9]+' } }
risk: high
reversibility: irreversible
idempotent: false
approval: required
`;

describe('approvers', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  let receiver: http.Server;
  let noticed: string;
  const posts: Record<string, Post[]> = { '/shared': [], '/own': [] };
  const secret = Buffer.alloc(32, 7);

  before(async () => {
    model = await startScriptedModel();
    receiver = http.createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      request.on('end', () => {
        posts[request.url!]!.push({ headers: request.headers, body });
        response.writeHead(204).end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const origin = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
    const base = freshDir();
    const stateDir = join(base, 'state');
    mkdirSync(join(stateDir, 'tools'), { recursive: true, mode: 0o700 });
    chmodSync(stateDir, 0o700);
    for (const name of ['staging.deploy', 'live.deploy'])
      writeFileSync(join(stateDir, 'tools', `${name}.yaml`), deployTool(name), { mode: 0o600 });
    const secretFile = join(base, 'secret');
    writeFileSync(secretFile, `whsec_${secret.toString('base64')}\n`, { mode: 0o600 });
    noticed = writableFile(join(base, 'noticed.jsonl'));
    const program = join(base, 'tell');
    // In one write: two of them may run at the same time.
    writeFileSync(program, `#!/bin/sh\nline=$(cat)\nprintf '%s\\n' "$line" >> "$1"\n`);
    chmodSync(program, 0o755);
    chmodSync(base, 0o755);
    runtime = await startRuntime({
      base,
      agents: {
        worker: manifestOf(
          'worker',
          '{ tools: { allow: [staging.deploy, live.deploy, file.read, file.write_workspace] } }',
        ),
      },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        approvald: {
          notice_command: [program, noticed],
          webhooks: [
            { url: `${origin}/shared`, secret_file: secretFile },
            { url: `${origin}/own` },
          ],
          second_approver_for: ['live.deploy'],
        },
      }),
    });
  });
  after(async () => {
    await runtime?.remove();
    await model?.close();
    receiver?.close();
  });

  /** The environment of agentctl on this state directory. */
  const asPeople = () => ({
    main: join(ROOT, 'build', 'agentctl.mjs'),
    state: runtime.stateDir,
    env: runtime.env,
  });
  const type = (words: string[], stdin = ''): Promise<AgentctlResult> =>
    agentctl(words, { ...asPeople(), stdin });
  const typed = async (words: string[], stdin?: string): Promise<string> => {
    const ran = await type(words, stdin);
    assert.equal(ran.code, 0, `agentctl ${words.join(' ')}\n${ran.stdout}${ran.stderr}`);
    return ran.stdout;
  };
  const refused = async (words: string[], says: RegExp): Promise<void> => {
    const ran = await type(words);
    assert.notEqual(ran.code, 0, `agentctl ${words.join(' ')}\n${ran.stdout}`);
    assert.match(ran.stderr, says);
  };

  let tasks = 0;
  const pendingCall = async (tool: string) => {
    const goal = `Deploy ${tasks++}.`;
    model.on(goal, says(call(tool, { commit: 'abc' })), ({ results }) => finishes(results[0]!));
    const task = await create(runtime, goal, { agent: 'worker' });
    const id = await eventually('a person to be asked', async () => {
      const { approvals } = await runtime.approvald.listApprovals({ query: { status: 'pending' } });
      return approvals.find(({ task_id }) => task_id === task.id)?.id;
    });
    return { taskId: task.id, id };
  };
  const noticesOf = (id: string): Notice[] =>
    readFileSync(noticed, 'utf8')
      .split('\n')
      .flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Notice]))
      .filter(({ data }) => data.approval.id === id);
  const postsOf = (path: string, id: string): Post[] =>
    posts[path]!.filter(({ body }) => (JSON.parse(body) as Notice).data.approval.id === id);
  const signedText = ({ headers, body }: Post): string =>
    `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const deployed = (taskId: string): string => {
    const file = join(runtime.stateDir, 'workspaces', taskId, 'deployed');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  };

  it('[R113] are notified on their terminal, by their program and by signed webhooks', async () => {
    let onScreen = '';
    const seen = agentctl(['approvals', '--follow'], {
      ...asPeople(),
      watch({ stdout }) {
        onScreen = stdout;
        return stdout.includes('rejected by') ? 'SIGINT' : undefined;
      },
    });
    const { taskId, id } = await pendingCall('staging.deploy');
    await eventually('it to be on the screen', async () => onScreen.includes(id) || undefined);
    const rejected = typed(['reject', id, '--reason', 'not today']);
    assert.match(await rejected, /worker/);
    const kinds = ['approval.decided', 'approval.requested'];
    await eventually('all notices to arrive', async () => {
      const all = [noticesOf(id), postsOf('/shared', id), postsOf('/own', id)];
      return all.every(({ length }) => length === kinds.length) ? true : undefined;
    });
    assert.deepEqual(
      noticesOf(id)
        .map(({ type: kind }) => kind)
        .sort(),
      kinds,
    );
    const { public_key_pem } = await runtime.approvald.approvalKey({});
    const key = createPublicKey(public_key_pem);
    for (const post of postsOf('/shared', id)) {
      const mac = createHmac('sha256', secret).update(signedText(post)).digest('base64');
      assert.equal(post.headers['webhook-signature'], `v1,${mac}`);
    }
    for (const post of postsOf('/own', id)) {
      const [version, mac = ''] = String(post.headers['webhook-signature']).split(',');
      const isGood = (text: string) =>
        verify(null, Buffer.from(text), key, Buffer.from(mac, 'base64'));
      assert.equal(version, 'v1a');
      assert.equal(isGood(signedText(post)), true);
      assert.equal(isGood(signedText({ ...post, body: post.body.replace('high', 'low') })), false);
    }
    const { stdout } = await seen;
    assert.match(stdout, new RegExp(`${id}  pending[^]*"commit": "abc"`), 'in full, as received');
    assert.match(stdout, new RegExp(`${id}  rejected by person:`));
    // The program and the receiver learn that an approval is pending, not its content.
    for (const text of [readFileSync(noticed, 'utf8'), ...posts['/own']!.map(({ body }) => body)])
      assert.doesNotMatch(text, /"abc"|whsec/);
    const task = await taskEnded(runtime, taskId);
    assert.match(task.result ?? '', /denied.*not today/s);
    assert.equal(deployed(taskId), '');
  });

  it('[R154] the runner reasons, a box executes, and irreversible calls wait for a person', async () => {
    const { taskId, id } = await pendingCall('staging.deploy');
    const kindsNow = async () => {
      const { boxes } = await runtime.sandboxd.listBoxes({ query: { limit: 100 } });
      const own = boxes.filter(({ task_id }) => task_id === taskId);
      return [...new Set(own.map(({ kind }) => kind))].sort();
    };
    assert.deepEqual(await kindsNow(), ['runner'], 'nothing is executed before the approval');
    assert.equal(deployed(taskId), '');
    await typed(['approve', id]);
    assert.match((await taskEnded(runtime, taskId)).result ?? '', /deployed abc/);
    assert.deepEqual(await kindsNow(), ['runner', 'tools']);
  });

  it('edit a request before they approve it: the edited call is made once and recorded', async () => {
    const { taskId, id } = await pendingCall('staging.deploy');
    await typed(['approve', id, '--edit', '-'], '{"commit":"def"}');
    const task = await taskEnded(runtime, taskId);
    assert.match(task.result ?? '', /deployed def/);
    assert.equal(deployed(taskId), 'def\n');
    assert.match(
      await typed(['task', 'explain', taskId]),
      /approved staging\.deploy, with changes/,
    );
    await refused(['approve', id], /is already approved/);
  });

  it('an edit that does not match the tool’s schema is rejected while the person can still correct it', async () => {
    const { taskId, id } = await pendingCall('staging.deploy');
    for (const wrong of ['{"commit":"def","force":true}', '{"commit":"a b"}', '{}', '[]', '{'])
      assert.notEqual((await type(['approve', id, '--edit', '-'], wrong)).code, 0, wrong);
    await typed(['approve', id, '--edit', '-'], '{"commit":"def"}');
    assert.match((await taskEnded(runtime, taskId)).result ?? '', /deployed def/);
  });

  it('[R115] decide in pairs if the site requires it: two people with their own keys, not one person twice', async () => {
    for (const name of ['alice', 'bob']) await typed(['person', 'add', name]);
    const { taskId, id } = await pendingCall('live.deploy');
    assert.match(await typed(['approve', id, '--as', 'alice']), /1 more approval is needed/);
    await typed(['approve', id, '--as', 'alice']);
    await reaches(runtime, taskId, 'waiting');
    assert.equal(deployed(taskId), '', 'one person twice is one person');
    await typed(['approve', id, '--as', 'bob']);
    assert.match((await taskEnded(runtime, taskId)).result ?? '', /deployed abc/);
    assert.equal(deployed(taskId), 'abc\n');
    const redeemed = await eventually('it in the log', async () =>
      (await allEvents(runtime)).find(
        ({ event, data }) => event === 'approval.redeemed' && data?.approval_id === id,
      ),
    );
    assert.deepEqual(redeemed.data?.by, 'person:alice person:bob');
  });

  it('the first approver escalates, and can no longer approve', async () => {
    const { taskId, id } = await pendingCall('staging.deploy');
    await typed(['escalate', id, '--as', 'alice']);
    await refused(['approve', id, '--as', 'alice'], /./);
    assert.equal(deployed(taskId), '');
    await typed(['approve', id, '--as', 'bob']);
    assert.match((await taskEnded(runtime, taskId)).result ?? '', /deployed abc/);
  });
});
