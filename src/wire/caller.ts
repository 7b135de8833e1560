// The authenticated caller that a handler sees. The link's authenticator sets it, never the
// request.
import type { DaemonName } from './daemons.ts';
import type { RunId, TaskId } from './primitives.ts';

/** Each may also do what the ones before it may. */
export const PERSON_ROLES = ['reader', 'approver', 'operator'] as const;
export type PersonRole = (typeof PERSON_ROLES)[number];

export type OperatorCaller = {
  kind: 'operator';
  principal: string;
  /** The key that was used: the person's own, or the operator key, which people may share. */
  key?: string;
  /** The role of the person's own key. The operator key has every role. */
  role?: PersonRole;
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
  /** Its process is a person's program, which may call only the vendors' routes. */
  isProgram?: true;
};
/** The part of the API that an API key opens. A route lists a scope as `key:models`. */
export type KeyScope = 'models';
/** A program with an API key. It may call only routes that list one of its scopes. */
export type KeyCaller = {
  kind: 'key';
  /** `key:` and its name. */
  principal: string;
  name: string;
  /** The secret that was used: a rotation ends one and starts another. */
  secretId: string;
  /** The person whose usage and budget its calls count towards. */
  owner: string | null;
  scopes: readonly KeyScope[];
};
export type DaemonCaller = { kind: 'daemon'; principal: string; daemon: DaemonName };

export type Caller = OperatorCaller | RunCaller | KeyCaller | DaemonCaller;
