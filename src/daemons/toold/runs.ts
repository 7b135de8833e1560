// Keeps toold's state of each admitted run: its grant, marks, calls in flight and progress, which
// is read from the journal when first needed.

import type { RunSockets } from '../../platform/daemon.ts';
import type { Log } from '../../platform/log.ts';
import {
  type AdmittedRun,
  makeRunRegistry,
  type RunRegistry,
  type RunRows,
} from '../../platform/run-registry.ts';
import type { Database } from '../../platform/sql/database.ts';
import type { HostPort } from '../../policy/box-hosts.ts';
import type { Label } from '../../wire/primitives.ts';
import type { AdmitToolRunBody } from '../../wire/toold.ts';
import { countCall, countOutcome, newProgress, type Progress } from './rules.ts';
import type { PastCall, TooldStore } from './store/store.ts';

export type ToolRun = AdmittedRun & {
  tools: ReadonlySet<string>;
  grantExpiresMs: number | null;
  callsMax: number;
  /** The agent's main persona. */
  persona: string | undefined;
  /** Opened by a person for a program: marks do not narrow them. */
  chosenHosts: readonly HostPort[];
  /** A program's home that lasts; undefined: its task tree's. */
  home: string | undefined;
  /** A directory on this host; null: the task tree has its own. */
  workspace: string | null;
  /** The directory stays as it is: changes are in a layer above it, which belongs to the tree. */
  isLayered: boolean;
  /**
   * The tasks whose layers it reads, from that of the tree to the one that it writes; the first is
   * the root, also without a layer.
   */
  layers: readonly string[];
  /** Set when its task tree was open in the backup that the state was restored from. */
  restored: RestoredRun | null;
  /** Its marks as far as known here; agentd is authoritative. */
  labels: Set<Label>;
  /** Calls in flight and progress pass to the next activation, which joins these calls. */
  inFlight: Set<AbortController>;
  history: { progress: Promise<Progress> | undefined };
};

/** `changed`: its files are newer than the record of its calls. */
export type RestoredRun = { backup: string; takenAt: string; changed: boolean };

export type ToolRuns = RunRegistry<AdmitToolRunBody, ToolRun> & {
  loadProgress(run: ToolRun): Promise<Progress>;
};

/** The task whose layer it writes, or whose directory. */
export const findOwnPlace = ({ layers }: Pick<ToolRun, 'layers'>): string => layers.at(-1)!;

export const buildCallKey = (tool: string, argumentsHash: string): string =>
  `${tool} ${argumentsHash}`;

export function makeRuns(options: {
  db: Database;
  rows: RunRows<AdmitToolRunBody>;
  store: Pick<TooldStore, 'pastCalls'>;
  sockets: RunSockets;
  onGone: (run: ToolRun) => void;
  log: Log;
}): ToolRuns {
  const { db, rows, store, sockets, log, onGone: onDismissed } = options;
  const registry = makeRunRegistry({
    db,
    rows,
    sockets,
    log,
    load: makeRunState,
    ended(run: ToolRun, how) {
      if (how === 'replaced') return;
      for (const controller of run.inFlight) controller.abort();
      onDismissed(run);
    },
  });
  return {
    ...registry,
    loadProgress({ runId, history }) {
      if (history.progress === undefined) {
        history.progress = store.pastCalls(runId).then(buildProgress);
        history.progress.catch(() => {
          history.progress = undefined;
        });
      }
      return history.progress;
    },
  };
}

function makeRunState(
  _runId: string,
  body: AdmitToolRunBody,
  before: ToolRun | undefined,
): Omit<ToolRun, keyof AdmittedRun> {
  const labels = before?.labels ?? new Set();
  for (const label of body.labels) labels.add(label);
  return {
    tools: new Set(body.tools),
    grantExpiresMs: body.grant_expires_at === null ? null : Date.parse(body.grant_expires_at),
    callsMax: body.max_calls,
    persona: body.persona,
    chosenHosts: body.hosts ?? [],
    home: body.home,
    // Absent in admissions stored by earlier versions, as is `restored`.
    workspace: body.workspace ?? null,
    isLayered: body.workspace_mode === 'layer',
    layers: [body.root_task_id, ...(body.layer_task_ids ?? [])],
    restored: readRestored(body.restored ?? null),
    labels,
    inFlight: before?.inFlight ?? new Set(),
    history: before?.history ?? { progress: undefined },
  };
}

const readRestored = (restored: AdmitToolRunBody['restored']): RestoredRun | null =>
  restored && { backup: restored.backup, takenAt: restored.taken_at, changed: restored.changed };

function buildProgress(calls: PastCall[]): Progress {
  const progress = newProgress();
  for (const call of calls) {
    const key = buildCallKey(call.tool, call.arguments_hash);
    countCall(progress, { callId: call.call_id, key });
    if (call.outcome_hash !== null) countOutcome(progress, key, call.outcome_hash);
  }
  return progress;
}
