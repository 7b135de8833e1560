// Shows the output of a command to the people who watch its task, as it comes.
import type { LiveFeed } from '../../platform/live-feed.ts';
import type { ExecBody } from '../../wire/sandboxd.ts';
import type { BoxOwner } from './box-plan.ts';

type Stream = 'stdout' | 'stderr';
export type ShowOutput = (stream: Stream, bytes: Uint8Array) => void;

/** Returns undefined for commands whose output is not meant for people. */
export function makeShowOutput(
  feed: Pick<LiveFeed, 'isWatched' | 'publish'>,
  owner: Pick<BoxOwner, 'agent' | 'task_id' | 'root_task_id'> | undefined,
  { call_id, live_as: source }: Pick<ExecBody, 'call_id' | 'live_as'>,
): ShowOutput | undefined {
  if (source === undefined || owner === undefined) return undefined;
  const { agent, task_id, root_task_id } = owner;
  // A character may arrive in two parts.
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  return (kind, bytes) => {
    if (!feed.isWatched(root_task_id)) return;
    const text = decoders[kind].decode(bytes, { stream: true });
    if (text !== '') feed.publish(root_task_id, { kind, call_id, task_id, agent, source, text });
  };
}
