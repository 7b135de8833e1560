// Decides by policy what a person or a run may do with the memories of a scope. A memory that may
// not be read is reported like one that does not exist.
import type { NewId } from '../../../platform/ids.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { isPrivate, personOf } from '../../../policy/private-scopes.ts';
import type { PolicyDecision, Request } from '../../../policy/request.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { MemoryRun } from '../../../wire/memoryd.ts';
import type { Label } from '../../../wire/primitives.ts';
import { describePrincipal } from '../events.ts';

/** A run without a call acts by rule: its briefing, its episode. */
export type ActingRun = Omit<MemoryRun, 'call_id'> & Partial<Pick<MemoryRun, 'call_id'>>;

/** Who acts: a person, or a run for which toold or agentd calls. */
export type Actor = {
  principal: string;
  /** The person whose own key was used, here or to create the root task of the run. */
  person?: string | undefined;
  run?: ActingRun | undefined;
  /** A person has approved the call of the run. */
  isApproved?: boolean | undefined;
};

export type MemoryAction = 'memory.read' | 'memory.write' | 'data.delete';

export type Rights = {
  decide(
    actor: Actor,
    action: MemoryAction,
    scope: string,
    labels?: readonly Label[],
  ): Promise<PolicyDecision>;
  canRead(actor: Actor, scope: string): Promise<boolean>;
  /** Throws `denied`, which is recorded. */
  deny(actor: Actor, action: MemoryAction, scope: string, by: PolicyDecision): Promise<Fault>;
};

export function makeRights(deps: {
  policy: { decide(request: Request): Promise<PolicyDecision> };
  /** The person with a key of their own who created the root task of a run. */
  findOwner(run: ActingRun): Promise<string | undefined>;
  db: Pick<Database, 'write'>;
  outbox: Pick<Outbox, 'add' | 'wake'>;
  newId: NewId;
}): Rights {
  const { policy, findOwner, db, outbox, newId } = deps;

  const isOwn = async ({ person, run }: Actor, scope: string): Promise<boolean> => {
    const owner = personOf(scope);
    if (owner === undefined) return false;
    return owner === (person ?? (run && (await findOwner(run))));
  };

  const decide: Rights['decide'] = async (actor, action, scope, labels = []) => {
    const { principal, run } = actor;
    return policy.decide({
      principal,
      action,
      resource: { type: 'Scope', id: scope },
      context: {
        scope,
        labels: [...new Set([...labels, ...(run?.labels ?? [])])].sort(),
        ...(isPrivate(scope) ? { own: await isOwn(actor, scope) } : {}),
        ...(run === undefined ? {} : { task_id: run.task_id, root_task_id: run.root_task_id }),
      },
    });
  };

  return {
    decide,
    canRead: async (actor, scope) => (await decide(actor, 'memory.read', scope)).answer === 'allow',
    async deny({ principal, run }, action, scope, { rules, reason }) {
      const policyIds = rules.join(' ').slice(0, 512);
      await db.write((sql) =>
        outbox.add(sql, {
          id: newId<string>('denied'),
          event: 'policy.denied',
          ...describePrincipal(principal),
          ...(run === undefined
            ? {}
            : { run_id: run.run_id, task_id: run.task_id, root_task_id: run.root_task_id }),
          status: action,
          allowed: false,
          ...(policyIds === '' ? {} : { policy: policyIds }),
          data: { scope },
        }),
      );
      outbox.wake();
      return fault('denied', reason);
    },
  };
}
