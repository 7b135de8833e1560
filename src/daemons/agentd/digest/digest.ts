// Makes the digest for a person from records of agentd, modeld, approvald and the log. No model is
// asked. A part that cannot be read is left out, and the digest says so.
import { toTimestamp } from '../../../platform/clock.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { DIGEST_PARTS, type DigestView } from '../../../wire/agentd.ts';
import type { ActingPerson } from '../../../wire/approvald/proposals.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';
import type { auditRoutes } from '../../../wire/auditd-ai.ts';
import { Fault } from '../../../wire/errors.ts';
import type { modeldRoutes } from '../../../wire/modeld.ts';
import type { AgentdStore } from '../store/store.ts';
import { renderDigest } from './digest-rules.ts';
import { INCIDENT_KINDS, type KindEvents, listIncidents } from './incident-rules.ts';

export type DigestRequest = {
  person: ActingPerson;
  sinceMs: number;
  untilMs: number;
  /** The length of each list. */
  limit: number;
};
export type MakeDigest = (request: DigestRequest) => Promise<DigestView>;

export type DigestDeps = {
  store: Pick<AgentdStore, 'digestTasks' | 'digestQuestions' | 'board'>;
  modeld: Pick<Client<typeof modeldRoutes>, 'usage'>;
  approvald: Pick<Client<typeof approvaldRoutes>, 'listPendingFor'>;
  audit: Pick<Client<typeof auditRoutes>, 'events'>;
  log: Log;
};

type DigestPart = (typeof DIGEST_PARTS)[number];
type Peers = Pick<DigestDeps, 'modeld' | 'approvald' | 'audit'>;

/** The newest of each kind. */
const EVENTS_MAX = 200;
const INCIDENTS_MAX = 20;

const NO_COST: DigestView['cost'] = {
  calls: 0,
  input_tokens: 0,
  output_tokens: 0,
  cost_microusd: 0,
  is_guess: false,
  agents: [],
};

export function makeDigest({ store, log, ...peers }: DigestDeps): MakeDigest {
  return async (request) => {
    const { sinceMs, untilMs, limit } = request;
    const missing: DigestView['missing'] = [];
    const orMissing = async <T>(part: DigestPart, work: Promise<T>, none: T): Promise<T> => {
      try {
        return await work;
      } catch (error) {
        log.warn('a part of a digest could not be read', { part, error });
        missing.push({
          part,
          message: error instanceof Fault ? error.message : 'see the log of agentd',
        });
        return none;
      }
    };
    const page = { sinceMs, untilMs, limit };
    const [tasks, questions, board, cost, approvals, incidents] = await Promise.all([
      store.digestTasks(page),
      store.digestQuestions(limit),
      store.board({ limit: 1, sinceMs: untilMs }),
      orMissing('cost', readCost(peers, sinceMs), NO_COST),
      orMissing('approvals', readApprovals(peers, request), { rows: [], more: false }),
      orMissing('incidents', readIncidents(peers, request), []),
    ]);
    const { unapplied, ...ended } = tasks;
    const countOf = (name: string) => board.columns.find((one) => one.name === name)?.count ?? 0;
    const digest: Omit<DigestView, 'text'> = {
      since: toTimestamp(sinceMs),
      until: toTimestamp(untilMs),
      ...ended,
      cost,
      waiting: {
        questions: questions.rows,
        approvals: approvals.rows,
        unapplied: unapplied.rows,
        more: questions.more || approvals.more || unapplied.more,
      },
      incidents,
      board: {
        blocked: countOf('blocked'),
        ready: countOf('ready'),
        working: countOf('working'),
        waiting: countOf('waiting'),
      },
      missing: missing.toSorted(
        (a, b) => DIGEST_PARTS.indexOf(a.part) - DIGEST_PARTS.indexOf(b.part),
      ),
    };
    return { ...digest, text: renderDigest(digest) };
  };
}

async function readCost({ modeld }: Peers, sinceMs: number): Promise<DigestView['cost']> {
  const query = { since: toTimestamp(sinceMs), by: 'agent' } as const;
  const { total, groups = [] } = await modeld.usage({ query });
  return {
    calls: total.calls,
    input_tokens: total.usage.input_tokens,
    output_tokens: total.usage.output_tokens,
    cost_microusd: total.cost_microusd,
    is_guess: groups.some(({ cost_is_guess }) => cost_is_guess),
    agents: groups.map(({ name, calls, cost_microusd }) => ({
      agent: name,
      calls,
      cost_microusd,
    })),
  };
}

/** Those that were escalated to somebody else wait for them. */
async function readApprovals({ approvald }: Peers, { person, limit }: DigestRequest) {
  const { approvals, pending } = await approvald.listPendingFor({ body: { person, limit } });
  const own = approvals.filter(({ escalated_to: to }) => to === null || to === person.principal);
  return {
    rows: own.map(({ id, agent, task_id, risk, summary, expires_at }) => ({
      id,
      agent,
      task_id,
      risk,
      summary: summary.slice(0, 240),
      expires_at,
    })),
    more: pending > approvals.length,
  };
}

async function readIncidents({ audit }: Peers, { sinceMs, untilMs }: DigestRequest) {
  const readKind = async (kind: (typeof INCIDENT_KINDS)[number]): Promise<KindEvents> => {
    const query = { event: kind, order: 'desc', limit: EVENTS_MAX } as const;
    const { events } = await audit.events({ query });
    const within = events.filter(({ ts }) => {
      const atMs = Date.parse(ts);
      return atMs >= sinceMs && atMs <= untilMs;
    });
    return { kind, events: within, more: within.length === EVENTS_MAX };
  };
  const found = await Promise.all(INCIDENT_KINDS.map(readKind));
  return listIncidents(found).slice(0, INCIDENTS_MAX);
}
