// Maps the arguments of tools to Cedar: the type that rules about a tool are checked against, and
// the values of one call, both from the tool's JSON schema. What Cedar cannot type is left out.
import type { PolicyJson } from './cedar.ts';
import type { PolicyRecord, PolicyValue } from './request.ts';

type JsonSchema = Record<string, unknown>;

export type ArgumentTypes = {
  /** A Cedar record type. */
  type: string;
  /** Dotted names of the arguments that rules can read. */
  known: string[];
  /** Those that they cannot read, with the reason. */
  leftOut: Map<string, string>;
};

type Member = { name: string; schema: JsonSchema; isRequired: boolean };

/** Lists the members of a record type; undefined for a schema that is not one. */
function membersOf(schema: JsonSchema): Member[] | undefined {
  const { type, properties, required = [] } = schema;
  if (type !== 'object' || !isObject(properties)) return undefined;
  return Object.entries(properties).map(([name, member]) => ({
    name,
    schema: member as JsonSchema,
    // toold decides on checked arguments, in which defaults are filled in.
    isRequired: (required as string[]).includes(name) || 'default' in (member as JsonSchema),
  }));
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

type Scalar = 'String' | 'Long' | 'Bool';

function scalarOf({ type, enum: values, const: only }: JsonSchema): Scalar | undefined {
  const given = Array.isArray(values) ? values : only === undefined ? undefined : [only];
  if (type === 'string' || (type === undefined && given?.every((v) => typeof v === 'string')))
    return 'String';
  if (type === 'integer') return 'Long';
  return type === 'boolean' ? 'Bool' : undefined;
}

const itemsOf = ({ type, items }: JsonSchema): Scalar | undefined =>
  type === 'array' && isObject(items) ? scalarOf(items) : undefined;

/** Says why a schema has no Cedar type. */
function describeUnmapped({ type, anyOf, oneOf, allOf }: JsonSchema): string {
  if (anyOf !== undefined || oneOf !== undefined || allOf !== undefined)
    return 'it may have several types';
  if (type === 'number') return 'it may be a fraction';
  if (type === 'array') return 'it is a list of records or lists';
  return type === 'object' ? 'its members have no fixed names' : 'it has no fixed type';
}

export function describeArguments(schema: JsonSchema): ArgumentTypes {
  const known: string[] = [];
  const leftOut = new Map<string, string>();
  const typeOf = (part: JsonSchema, path: string): string | undefined => {
    const scalar = scalarOf(part);
    const items = itemsOf(part);
    if (scalar !== undefined || items !== undefined) {
      known.push(path);
      return scalar ?? `Set<${items}>`;
    }
    const members = membersOf(part);
    if (members !== undefined) return recordOf(members, `${path}.`);
    leftOut.set(path, describeUnmapped(part));
    return undefined;
  };
  const recordOf = (members: readonly Member[], prefix: string): string => {
    const typed = members.flatMap(({ name, schema: member, isRequired }) => {
      const type = typeOf(member, `${prefix}${name}`);
      return type === undefined ? [] : [`${JSON.stringify(name)}${isRequired ? '' : '?'}: ${type}`];
    });
    return `{ ${typed.join(', ')} }`;
  };
  return { type: recordOf(membersOf(schema) ?? [], ''), known, leftOut };
}

/**
 * Returns the arguments of one call as rules read them. A value that does not have its type is left
 * out, so that a rule which reads it cannot be evaluated: a forbid then holds, a permit does not.
 */
export function pickArguments(schema: JsonSchema, given: unknown): PolicyRecord {
  const values = isObject(given) ? given : {};
  return Object.fromEntries(
    (membersOf(schema) ?? []).flatMap(({ name, schema: member }): [string, PolicyValue][] => {
      // A recorded call has the arguments as the model wrote them, without defaults.
      const written = Object.hasOwn(values, name) ? values[name] : member.default;
      const value = written === undefined ? undefined : pickValue(member, written);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

function pickValue(schema: JsonSchema, value: unknown): PolicyValue | undefined {
  const scalar = scalarOf(schema);
  if (scalar !== undefined) return isScalar(scalar, value) ? value : undefined;
  const items = itemsOf(schema);
  if (items !== undefined) {
    const isWhole = Array.isArray(value) && value.every((item) => isScalar(items, item));
    return isWhole ? (value as PolicyValue[]) : undefined;
  }
  return membersOf(schema) !== undefined && isObject(value)
    ? pickArguments(schema, value)
    : undefined;
}

function isScalar(type: Scalar, value: unknown): value is string | number | boolean {
  if (type === 'String') return typeof value === 'string' && value.isWellFormed();
  return type === 'Long' ? Number.isSafeInteger(value) : typeof value === 'boolean';
}

type Access = { left: unknown; attr: string };

/** Returns the dotted names of the arguments that conditions read; '' for the whole record. */
export function findArgumentsRead(conditions: PolicyJson['conditions']): string[] {
  const found = new Set<string>();
  /** Returns the path below context.arguments; undefined for anything else. */
  const pathOf = (value: unknown): string[] | undefined => {
    const access = accessOf(value);
    if (access === undefined) return undefined;
    if (isContext(access.left)) return access.attr === 'arguments' ? [] : undefined;
    const above = pathOf(access.left);
    return above && [...above, access.attr];
  };
  const walk = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) walk(item);
    if (!isObject(value)) return;
    const path = pathOf(value);
    if (path !== undefined) found.add(path.join('.'));
    else for (const inner of Object.values(value)) walk(inner);
  };
  walk(conditions);
  return [...found];
}

const isContext = (value: unknown): boolean => isObject(value) && value.Var === 'context';
const accessOf = (value: unknown): Access | undefined =>
  isObject(value) ? ((value['.'] ?? value.has) as Access | undefined) : undefined;
