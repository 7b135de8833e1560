// Decides by policy which proposed memories a person may know of: those of the scopes that they may
// read. The others are not listed, not counted and not found.
import { findKeyOwner } from '../../platform/person-keys.ts';
import { isPrivate, personOf } from '../../policy/private-scopes.ts';
import type { PolicyDecision, Request } from '../../policy/request.ts';
import type { Caller } from '../../wire/caller.ts';

export type MayRead = (caller: Caller, scope: string) => Promise<boolean>;

export function makeMayRead(policy: {
  decide(request: Request): Promise<Pick<PolicyDecision, 'answer'>>;
}): MayRead {
  return async (caller, scope) => {
    const decision = await policy.decide({
      principal: caller.principal,
      action: 'memory.read',
      resource: { type: 'Scope', id: scope },
      context: {
        scope,
        labels: [],
        ...(isPrivate(scope) ? { own: isOwn(caller, scope) } : {}),
      },
    });
    return decision.answer === 'allow';
  };
}

function isOwn(caller: Caller, scope: string): boolean {
  const owner = personOf(scope);
  return owner !== undefined && owner === findKeyOwner(caller);
}
