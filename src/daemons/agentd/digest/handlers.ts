// Handles the routes of digests, and writes those that people want mailed.
import type { Clock } from '../../../platform/clock.ts';
import type { HandlerContext } from '../../../platform/dispatch.ts';
import { hashJson } from '../../../platform/json.ts';
import type { digestRoutes } from '../../../wire/agentd/digest.ts';
import type { ActingPerson } from '../../../wire/approvald/proposals.ts';
import type { Caller } from '../../../wire/caller.ts';
import { fault } from '../../../wire/errors.ts';
import type { NoticeText } from '../notice-text.ts';
import type { DigestOrder } from '../store/notices.ts';
import type { AgentdStore } from '../store/store.ts';
import { type DigestDeps, makeDigest } from './digest.ts';
import { titleDigest } from './digest-rules.ts';

type Routes = typeof digestRoutes;

const DAY_MS = 86_400_000;
const MAILED_MAX = 20;
const PERSON = 'person:';
const OPERATOR_KEY = 'operator';

export function openDigests({
  clock,
  ...deps
}: Omit<DigestDeps, 'store'> & {
  store: DigestDeps['store'] & Pick<AgentdStore, 'orderDigest'>;
  clock: Clock;
}) {
  const make = makeDigest(deps);

  const readSince = (since: string | undefined): number => {
    const nowMs = clock.nowMs();
    const sinceMs = since === undefined ? nowMs - DAY_MS : Date.parse(since);
    if (sinceMs <= nowMs) return sinceMs;
    throw fault('bad_request', `since: ${since} is in the future`);
  };

  return {
    /** As the person who ordered it may read it. */
    async writeDigest(order: {
      person: string;
      digest: DigestOrder;
      untilMs: number;
    }): Promise<NoticeText> {
      const { since_ms: sinceMs, key } = order.digest;
      const person = { principal: order.person, key } as ActingPerson;
      const digest = await make({ person, sinceMs, untilMs: order.untilMs, limit: MAILED_MAX });
      const title = `digest: ${titleDigest(digest)}`;
      return { from: null, title, text: digest.text, context_id: null, task_id: null };
    },

    makeHandlers: (wakeNotices: () => void) => ({
      async getDigest({ query, caller }: HandlerContext<Routes['getDigest']>) {
        const sinceMs = readSince(query.since);
        const person = toActingPerson(caller);
        return {
          digest: await make({ person, sinceMs, untilMs: clock.nowMs(), limit: query.limit }),
        };
      },
      async mailDigest({ body, caller, idempotencyKey }: HandlerContext<Routes['mailDigest']>) {
        const { principal, key } = toActingPerson(caller);
        const person = principal.slice(PERSON.length);
        const digest = { since_ms: readSince(body.since), key };
        const once =
          idempotencyKey === undefined
            ? undefined
            : {
                scope: `${principal} mailDigest`,
                key: idempotencyKey,
                requestHash: hashJson(body),
              };
        const { id } = await deps.store.orderDigest({ person, digest }, once);
        wakeNotices();
        return { mail: { id, to: person } };
      },
    }),
  };
}

export type Digests = ReturnType<typeof openDigests>;

function toActingPerson(caller: Caller): ActingPerson {
  if (caller.kind !== 'operator' || !caller.principal.startsWith(PERSON))
    throw fault('forbidden_caller', 'only people have a digest');
  const principal = caller.principal as ActingPerson['principal'];
  return { principal, key: caller.key ?? OPERATOR_KEY };
}
