// The hosts that people let a run reach beyond what policy gives its agent. They stay with the run
// for all its activations; whether a rule forbids one meanwhile is policy's to say, every time.
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
  /** The same touches; those of granted hosts say so. */
  markApproved(run: RunRef, touches: readonly Touch[]): Promise<Touch[]>;
  /** Nobody needs them for now. */
  forget(run: RunRef): void;
};

export function makeApprovedHosts(db: Database): ApprovedHosts {
  /** Read once per activation: every call in a box looks at them. */
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
