// Who calls, as a handler sees it. A link's authenticator decides this; no request can say it of
// itself.
import type { DaemonName } from './daemons.ts';
import type { RunId, TaskId } from './primitives.ts';

export type OperatorCaller = {
  kind: 'operator';
  principal: string;
  /** Which key proved it: the person's own, or the operator's that people may share. */
  key?: string;
};
export type RunCaller = {
  kind: 'run';
  principal: string;
  runId: RunId;
  /** The activation this socket was made for; a call with an old fence is refused. */
  fence: number;
  mode: 'live' | 'replay';
  agent: string;
  taskId: TaskId;
};
export type DaemonCaller = { kind: 'daemon'; principal: string; daemon: DaemonName };

export type Caller = OperatorCaller | RunCaller | DaemonCaller;
