// Every event about a task names the root task, on both databases.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DATABASES, makeCall, world } from './testing.ts';

for (const [name, open] of Object.entries(DATABASES))
  test(`events of waits, messages and artifacts name their root task on ${name}`, async () => {
    const { store, task, claim, events } = await world(open);
    const root = await task({ agent: 'coder' });
    const part = await task({ parent: root, contextId: root.context_id });
    const claimed = (await claim()).find(({ task }) => task.id === part.id)!;
    const call = () => makeCall(claimed.run);
    const message = {
      type: 'TaskProgress',
      contextId: root.context_id,
      taskId: part.id,
      from: 'person:alice',
      to: 'agent:planner',
      inReplyTo: null,
      labels: ['person' as const],
      parts: [{ kind: 'text', text: 'one' }],
      text: 'one',
      delivered: false,
    };
    await store.send(message, undefined);
    await store.inbox({ runId: claimed.run.id, fence: claimed.run.fence }, 0);
    const wait = await store.openWait(call(), { kind: 'question', by: ['person'], question: '?' });
    await store.answerWait(wait.id, 'yes', 'person:alice');
    const artifact = {
      id: `art_${'1'.repeat(26)}`,
      name: 'a',
      mimeType: 'text/plain',
      sizeBytes: 1,
      hash: 'h',
      createdBy: 'agent:planner',
      taskId: part.id,
      contextId: root.context_id,
      labels: ['agent' as const],
    };
    await store.putArtifact(artifact, call(), undefined);
    await store.recordArtifactRead(call(), artifact);
    assert.ok(await store.outbox.drain(20_000));
    const found = events.filter((event) => /^(wait|message|artifact)\./.test(event.event));
    assert.deepEqual(
      found.map(({ event, task_id, root_task_id }) => [event, task_id, root_task_id]),
      [
        'message.sent',
        'message.delivered',
        'wait.opened',
        'wait.ended',
        'artifact.stored',
        'artifact.read',
      ].map((kind) => [kind, part.id, root.id]),
    );
    await store.close();
  });
