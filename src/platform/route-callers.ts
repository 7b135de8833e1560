// Decides whether a caller may call a route at all, by its kind, and a person also by role.
import { type Caller, type OperatorCaller, PERSON_ROLES } from '../wire/caller.ts';
import { fault } from '../wire/errors.ts';
import { type CallerKind, type Route, readRole } from '../wire/route.ts';

/** Descriptions of callers that are not daemons. */
const CALLERS: Readonly<Record<string, string>> = {
  operator: 'a person with the operator key',
  run: 'a run on its own socket',
  'key:models': 'an API key with the scope models',
};

function listKinds(caller: Caller): CallerKind[] {
  if (caller.kind === 'daemon') return [caller.daemon];
  return caller.kind === 'key'
    ? caller.scopes.map((scope) => `key:${scope}` as const)
    : [caller.kind];
}

export function assertCaller(route: Route, caller: Caller): void {
  if (caller.kind === 'run' && caller.isProgram === true && route.dialect === undefined)
    throw fault('forbidden_caller', `a program may not call ${route.method} ${route.path}`, {
      hint: 'Of the runtime, a program in a box has only the models: /openai/… and /anthropic/….',
    });
  if (!listKinds(caller).some((kind) => route.callers.includes(kind))) {
    throw fault(
      'forbidden_caller',
      `${caller.principal} may not call ${route.method} ${route.path}`,
      { hint: `Only these may: ${route.callers.map((kind) => CALLERS[kind] ?? kind).join(', ')}.` },
    );
  }
  if (caller.kind === 'operator') assertRole(route, caller);
}

function assertRole(route: Route, { principal, role = 'operator' }: OperatorCaller): void {
  const needed = readRole(route);
  if (PERSON_ROLES.indexOf(role) >= PERSON_ROLES.indexOf(needed)) return;
  throw fault(
    'forbidden_caller',
    `${principal} has the role ${role} and may not call ${route.method} ${route.path}`,
    {
      hint: `It needs the role ${needed}: agentctl person add NAME --role ${needed}.`,
      details: { reason: 'role', role, needed },
    },
  );
}
