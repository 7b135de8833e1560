// Stores the hosts that people approved for a run beyond its agent's policy. They stay with the run
// across activations; a forbid rule still overrides them, because policy decides every time.
import type { Database } from '../../../platform/sql/database.ts';
import { parseHost } from '../../../policy/hosts.ts';
import type { Touch } from '../../../policy/request.ts';
import type { ApprovalId, CallId, RunId } from '../../../wire/primitives.ts';

type RunRef = { runId: RunId };
type RunHost = { host: string; port: number };
type NewHost = RunHost & { callId: CallId; approvalId: ApprovalId; nowMs: number };

export type ApprovedHosts = {
  hostsFor(run: RunRef): Promise<readonly RunHost[]>;
  add(run: RunRef, host: NewHost): Promise<void>;
  /** Returns the touches, with those of approved hosts marked `granted`. */
  markApproved(run: RunRef, touches: readonly Touch[]): Promise<Touch[]>;
  /** Drops the cached hosts. */
  forget(run: RunRef): void;
};

export function makeApprovedHosts(db: Database): ApprovedHosts {
  /** Cached per activation, because every call in a box needs them. */
  const known = new Map<RunId, Promise<readonly RunHost[]>>();

  const hostsFor: ApprovedHosts['hostsFor'] = ({ runId }) => {
    const found = known.get(runId);
    if (found !== undefined) return found;
    const read = db.read((sql) =>
      sql.all<RunHost>(
        'SELECT host, port FROM run_hosts WHERE run_id = ? ORDER BY granted_ms, host, port',
        runId,
      ),
    );
    known.set(runId, read);
    read.catch(() => known.delete(runId));
    return read;
  };

  return {
    hostsFor,
    async add({ runId }, { host, port, callId, approvalId, nowMs }) {
      await db.write((sql) =>
        sql.run(
          'INSERT INTO run_hosts (run_id, host, port, call_id, approval_id, granted_ms) ' +
            'VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
          runId,
          host,
          port,
          callId,
          approvalId,
          nowMs,
        ),
      );
      known.delete(runId);
    },
    async markApproved(run, touches) {
      if (!touches.some(({ action }) => action === 'net.connect')) return [...touches];
      const hosts = await hostsFor(run);
      return touches.map((touch) => {
        if (touch.action !== 'net.connect') return touch;
        const parsed = parseHost(touch.host);
        const isGranted = ({ host, port }: RunHost) =>
          'value' in parsed && host === parsed.value.name && port === touch.port;
        return hosts.some(isGranted) ? { ...touch, granted: true } : touch;
      });
    },
    forget: ({ runId }) => void known.delete(runId),
  };
}
