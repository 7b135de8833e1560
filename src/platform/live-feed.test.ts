// Watchers get the items of their task tree while they watch; slow ones are told what they missed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LiveItem } from '../wire/live.ts';
import { deriveId } from './ids.ts';
import { LiveFeed } from './live-feed.ts';

const ROOT = deriveId<LiveItem['task_id']>('task', 'root');
const OTHER = deriveId<LiveItem['task_id']>('task', 'other');
const item = (text: string): LiveItem => ({
  kind: 'stdout',
  call_id: deriveId('call', 'one'),
  task_id: ROOT,
  agent: 'coder',
  source: 'shell.exec',
  text,
});

function watchRoot(feed: LiveFeed) {
  const controller = new AbortController();
  const { body } = feed.watch({ root_task_id: ROOT }, controller.signal);
  const stream = (body as AsyncIterable<string>)[Symbol.asyncIterator]();
  const next = async (): Promise<unknown[]> => {
    const { value = '' } = (await stream.next()) as { value?: string };
    return [...value.matchAll(/^data: (.*)$/gm)].map(([, text]) => JSON.parse(text!));
  };
  return { controller, next };
}

test('a watcher gets the items of its tree from then on, in order', async () => {
  const feed = new LiveFeed();
  feed.publish(ROOT, item('before'));
  const { controller, next } = watchRoot(feed);
  assert.deepEqual(await next(), []);
  feed.publish(OTHER, item('elsewhere'));
  feed.publish(ROOT, item('one'));
  feed.publish(ROOT, item('two'));
  assert.deepEqual(await next(), [item('one'), item('two')]);
  const later = next();
  feed.publish(ROOT, item('three'));
  assert.deepEqual(await later, [item('three')]);
  assert.deepEqual([feed.isWatched(ROOT), feed.isWatched(OTHER)], [true, false]);
  controller.abort();
  assert.equal(feed.isWatched(ROOT), false);
  assert.deepEqual(await next(), []);
});

test('a slow watcher has a bounded queue and is told what is missing', async () => {
  const feed = new LiveFeed();
  const { controller, next } = watchRoot(feed);
  await next();
  for (let i = 0; i < 1_000; i++) feed.publish(ROOT, item('x'.repeat(1_024)));
  assert.equal((await next()).length, 256);
  assert.deepEqual(await next(), [{ left_out_chars: 744 * 1_024 }]);
  feed.publish(ROOT, item('y'.repeat(20_000)));
  const parts = (await next()) as LiveItem[];
  assert.deepEqual(
    parts.map(({ text }) => text.length),
    [16_384, 3_616],
  );
  controller.abort();
});

test('the number of watchers is bounded, and each leaves its place', () => {
  const feed = new LiveFeed();
  const watchers = Array.from({ length: 64 }, () => watchRoot(feed));
  assert.throws(() => watchRoot(feed), { code: 'overloaded' });
  watchers[0]!.controller.abort();
  watchRoot(feed);
});
