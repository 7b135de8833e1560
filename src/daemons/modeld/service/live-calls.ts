// Shows what models say to a run to the people who watch its task, as it arrives.
import type { LiveFeed } from '../../../platform/live-feed.ts';
import type { AgentName, CallId, TaskId } from '../../../wire/primitives.ts';
import type { ModelCall } from './model-call.ts';
import type { ResponseObserver } from './ports.ts';

/** Returns undefined for calls that no task makes. */
export function makeObserver(
  feed: Pick<LiveFeed, 'isWatched' | 'publish'>,
  { identity, callId, model }: ModelCall,
): ResponseObserver | undefined {
  const { run, taskId, rootTaskId, agent } = identity;
  if (run === undefined || rootTaskId === null) return undefined;
  const about = {
    call_id: callId as CallId,
    task_id: taskId as TaskId,
    agent: agent as AgentName,
    source: model.name,
  };
  return {
    isWatched: () => feed.isWatched(rootTaskId),
    show(events) {
      for (const event of events) {
        const text = 'text' in event ? event.text : 'name' in event ? event.name : '';
        const { type: kind } = event;
        if (text !== '' && (kind === 'text' || kind === 'thinking' || kind === 'tool_call'))
          feed.publish(rootTaskId, { ...about, kind, text });
      }
    },
  };
}
