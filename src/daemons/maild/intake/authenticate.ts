// Identifies who sends mail by the key that is the password: a person's own, or the operator's.
import { join } from 'node:path';
import { authenticateByKey, loadOperatorKey } from '../../../platform/authenticate.ts';
import { findKeyOwner, type PersonKeys } from '../../../platform/person-keys.ts';
import type { Caller } from '../../../wire/caller.ts';
import { fault } from '../../../wire/errors.ts';
import type { PersonSender } from './intake.ts';

export function toSender(caller: Caller): PersonSender {
  if (caller.kind !== 'operator') throw fault('unauthenticated', 'this is not the key of a person');
  const name = caller.principal.replace(/^person:/, '');
  return { kind: 'person', name, owner: findKeyOwner(caller), role: caller.role ?? 'operator' };
}

/** With the operator key, the name may be any that has no key of its own. */
export function makeMailAuthentication(options: {
  stateDir: string;
  people: PersonKeys;
}): (name: string, key: string) => PersonSender {
  const check = authenticateByKey(
    loadOperatorKey(join(options.stateDir, 'operator.key')),
    options.people,
  );
  return (name, key) => {
    const claimed = options.people.has(name) ? name : name.replace(/@.*$/, '');
    const headers = { authorization: `Bearer ${key}`, 'agentd-person': claimed };
    return toSender(check({ headers } as never) as Caller);
  };
}
