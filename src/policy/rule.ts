// Defines a rule and matches its scope. Pure. A rule whose scope does not fit a request cannot
// affect the decision, so it is not evaluated.
import { findArgumentsRead } from './arguments.ts';
import type { PolicyJson } from './cedar.ts';
import type { EntityParents } from './entities.ts';
import type { EntityUid } from './principals.ts';

/** A rule before Cedar has parsed it. */
export type RuleText = {
  id: string;
  text: string;
  /** Its origin, for people: `spec.tools.allow: git.read`, `10-prod.cedar:3`. */
  from: string;
};

export type Scope = Pick<PolicyJson, 'principal' | 'action' | 'resource'>;

export type Rule = RuleText & {
  effect: 'permit' | 'forbid';
  /** Why approval is needed; null without @ask. */
  ask: string | null;
  /** The reason to give when it decides. */
  why: string | null;
  /** When it expires. */
  untilMs: number | null;
  /** Has no conditions: matches wherever its scope fits. */
  isUnconditional: boolean;
  /** Matches only a call that deletes a whole tree. */
  isAboutTrees: boolean;
  /** The methods that the conditions of a permit of named hosts are limited to. */
  methods: readonly string[];
  /** An ask rule that does not apply where a permit names both host and method. */
  yieldsToMethod: boolean;
  /** Reads `context.arguments`. */
  readsArguments: boolean;
  /** Hosts that its conditions name; undefined when they read the host name itself. */
  hosts: readonly string[] | undefined;
  scope: Scope;
};

/** For people; `@yields("method")` is only for the built-in rules. */
export const ANNOTATIONS: readonly string[] = ['id', 'ask', 'why', 'until'];

export function makeRule(text: RuleText, json: PolicyJson): Rule {
  const { principal, action, resource } = json;
  const { ask, why, until, yields } = json.annotations ?? {};
  return {
    ...text,
    effect: json.effect,
    ask: json.effect === 'forbid' ? (ask ?? null) : null,
    why: why ?? null,
    untilMs: until === undefined ? null : Date.parse(until),
    isUnconditional: json.conditions.length === 0,
    isAboutTrees: isAboutTrees(json),
    methods: methodsNamedBy(json),
    yieldsToMethod: yields === 'method',
    readsArguments: findArgumentsRead(json.conditions).length > 0,
    hosts: hostsNamedBy(json),
    scope: { principal, action, resource },
  };
}

/** Returns true when a condition is `context.recursive`, alone or joined to others by `&&`. */
export function isAboutTrees({ conditions }: PolicyJson): boolean {
  const needs = (expression: unknown): boolean => {
    const { '&&': both, '.': member } = expression as {
      '&&'?: { left: unknown; right: unknown };
      '.'?: { left: { Var?: string }; attr: string };
    };
    if (both !== undefined) return needs(both.left) || needs(both.right);
    return member?.attr === 'recursive' && member.left.Var === 'context';
  };
  return conditions.some(({ kind, body }) => kind === 'when' && needs(body));
}

/** A condition of a permit, as far as it may limit the method. */
type MethodTest = {
  '&&'?: Operands;
  '||'?: Operands;
  '=='?: Operands;
  contains?: Operands;
  '.'?: Attribute;
  Value?: unknown;
  Set?: MethodTest[];
};
type Operands = { left: MethodTest; right: MethodTest };

/** Returns the methods of a permit of named hosts that holds only for these methods. */
export function methodsNamedBy({ effect, resource, conditions }: PolicyJson): string[] {
  if (effect !== 'permit' || findNamedEntity(resource)?.type !== 'Host') return [];
  const limits = conditions.flatMap(({ kind, body }) =>
    kind === 'when' ? [limitedMethods(body as MethodTest)] : [],
  );
  return limits.find((limit) => limit !== undefined) ?? [];
}

const isMethod = (test: MethodTest): boolean =>
  test['.']?.attr === 'method' && test['.'].left.Var === 'context';

/** Returns undefined for a condition that may hold for any method. */
function limitedMethods(test: MethodTest): string[] | undefined {
  const { '&&': both, '||': either, '==': equal, contains } = test;
  if (both !== undefined) return limitedMethods(both.left) ?? limitedMethods(both.right);
  if (either !== undefined) {
    const [left, right] = [limitedMethods(either.left), limitedMethods(either.right)];
    return left && right && [...left, ...right];
  }
  const values =
    equal !== undefined && isMethod(equal.left)
      ? [equal.right]
      : equal !== undefined && isMethod(equal.right)
        ? [equal.left]
        : contains !== undefined && isMethod(contains.right)
          ? contains.left.Set
          : undefined;
  const methods = values?.map(({ Value: value }) => value);
  return methods?.every((method) => typeof method === 'string') ? methods : undefined;
}

function hostsNamedBy({ conditions }: PolicyJson): string[] | undefined {
  const found: string[] = [];
  let readsName = false;
  const walk = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) walk(item);
    if (Array.isArray(value) || typeof value !== 'object' || value === null) return;
    const { __entity: entity, Var, '.': read, has } = value as Expression;
    const attribute = read ?? has;
    if (entity?.type === 'Host') found.push(entity.id);
    else if (Var === 'context' || (read?.left.Var === 'context' && read.attr === 'host'))
      readsName = true;
    else if (attribute?.left.Var !== 'context')
      for (const inner of Object.values(value)) walk(inner);
  };
  walk(conditions);
  return readsName ? undefined : found;
}

type Attribute = { left: { Var?: string }; attr: string };
type Expression = { __entity?: EntityUid; Var?: string; '.'?: Attribute; has?: Attribute };

type EntityRef = EntityUid | { __entity: EntityUid };
const plain = (ref: EntityRef): EntityUid => ('__entity' in ref ? ref.__entity : ref);
const isSame = (a: EntityUid, b: EntityUid): boolean => a.id === b.id && a.type === b.type;

type Constraint = PolicyJson['principal'] | PolicyJson['resource'];

function isIn({ uid, parents }: EntityParents, ref: EntityRef): boolean {
  const above = plain(ref);
  return isSame(uid, above) || parents.some((parent) => isSame(parent, above));
}

/** Matches a rule's scope exactly as Cedar does. A template's slot fits nothing. */
export function scopeFits(constraint: Constraint, placed: EntityParents): boolean {
  if (constraint.op === 'All') return true;
  if (constraint.op === 'is') {
    if (constraint.entity_type !== placed.uid.type) return false;
    const within = constraint.in;
    return within === undefined || ('entity' in within && isIn(placed, within.entity));
  }
  if (!('entity' in constraint)) return false;
  if (constraint.op === '==') return isSame(placed.uid, plain(constraint.entity));
  return isIn(placed, constraint.entity);
}

export function actionFits(constraint: PolicyJson['action'], action: string): boolean {
  if (constraint.op === 'All') return true;
  const named =
    'entities' in constraint
      ? constraint.entities
      : 'entity' in constraint
        ? [constraint.entity]
        : [];
  return named.some((ref) => plain(ref).id === action);
}

export type RuleQuery = { principal: EntityParents; action: string; resource: EntityParents };

export function ruleFits({ scope }: Rule, { principal, action, resource }: RuleQuery): boolean {
  return (
    actionFits(scope.action, action) &&
    scopeFits(scope.principal, principal) &&
    scopeFits(scope.resource, resource)
  );
}

/** Returns the entity that a scope names: `== X`, `in X` or `is T in X`. */
export function findNamedEntity(constraint: Constraint): EntityUid | undefined {
  if (constraint.op === 'All') return undefined;
  if (constraint.op === 'is') {
    return constraint.in !== undefined && 'entity' in constraint.in
      ? plain(constraint.in.entity)
      : undefined;
  }
  return 'entity' in constraint ? plain(constraint.entity) : undefined;
}

/** Returns a Cedar string literal. */
export function quote(text: string): string {
  const escaped = text.replace(/[\\"]/g, '\\$&');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must be escaped.
  return `"${escaped.replace(/[\u0000-\u001f\u007f]/g, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`)}"`;
}
