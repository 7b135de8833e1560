// The authenticated caller that a handler sees. The link's authenticator sets it, never the
// request.
import type { DaemonName } from './daemons.ts';
import type { RunId, TaskId } from './primitives.ts';

export type OperatorCaller = {
  kind: 'operator';
  principal: string;
  /** The key that was used: the person's own, or the operator key, which people may share. */
  key?: string;
};
export type RunCaller = {
  kind: 'run';
  principal: string;
  runId: RunId;
  /** The activation that this socket was made for; a call with an old fence is refused. */
  fence: number;
  mode: 'live' | 'replay';
  agent: string;
  taskId: TaskId;
};
export type DaemonCaller = { kind: 'daemon'; principal: string; daemon: DaemonName };

export type Caller = OperatorCaller | RunCaller | DaemonCaller;
