// Messages for invalid values, for people and models. A schema's own message takes precedence; the
// library's default would be "expected string, received undefined".
import type { z } from 'zod';

type RawIssue = z.core.$ZodRawIssue;

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
};

const FORMATS: Readonly<Record<string, string>> = {
  base64: 'base64',
  datetime: 'a time in UTC such as 2026-06-29T18:00:00Z',
  url: 'a URL such as http://127.0.0.1:8080',
};

const nameType = (expected: string): string => TYPE_NAMES[expected] ?? expected;
const describeNeed = (what: string, input: unknown): string =>
  input === undefined ? `is missing; must be ${what}` : `must be ${what}`;
const describeInput = (input: unknown): string =>
  input === undefined || Number.isNaN(input) ? '' : `, not ${nameKind(input)}`;

function nameKind(input: unknown): string {
  if (input === null) return 'null';
  if (typeof input === 'boolean') return String(input);
  if (Array.isArray(input)) return 'a list';
  return nameType(typeof input);
}

/** For the library's `error` setting. Returns undefined for issues that callers describe. */
export function describeIssue(issue: RawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type': {
      const isFraction = issue.expected === 'int' && typeof issue.input === 'number';
      const but = isFraction ? '' : describeInput(issue.input);
      return `${describeNeed(nameType(issue.expected), issue.input)}${but}`;
    }
    case 'invalid_value':
      return describeNeed(listValues(issue.values.map(String)), issue.input);
    case 'too_small': {
      const bound = issue.inclusive === false ? 'more than' : 'at least';
      return describeBound({ of: issue.origin, bound, limit: Number(issue.minimum) });
    }
    case 'too_big': {
      const bound = issue.inclusive === false ? 'less than' : 'at most';
      return describeBound({ of: issue.origin, bound, limit: Number(issue.maximum) });
    }
    case 'invalid_format':
      return FORMATS[issue.format] === undefined
        ? 'does not have the required format'
        : `must be ${FORMATS[issue.format]}`;
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`;
    case 'invalid_key':
      return `the key ${issue.issues[0]?.message ?? 'is not allowed'}`;
    case 'invalid_union':
      return describeUnion(issue);
    default:
      return undefined;
  }
}

const listValues = (values: readonly string[]): string =>
  values.length === 1 ? String(values[0]) : `one of: ${values.join(', ')}`;

function describeBound({ of, bound, limit }: { of: string; bound: string; limit: number }): string {
  if (['number', 'int', 'bigint'].includes(of)) return `must be ${bound} ${limit}`;
  if (bound === 'at least' && limit === 1) return 'must not be empty';
  const unit = of === 'string' ? 'character' : of === 'array' ? 'item' : 'key';
  return `must have ${bound} ${limit} ${unit}${limit === 1 ? '' : 's'}`;
}

function describeUnion(issue: Extract<RawIssue, { code: 'invalid_union' }>): string {
  const { errors, input } = issue;
  if (Array.isArray(issue.options)) return `must be ${listValues(issue.options.map(String))}`;
  const types = errors.map(([first, ...more]) =>
    first?.code === 'invalid_type' && first.path.length === 0 && more.length === 0
      ? nameType(first.expected)
      : undefined,
  );
  return types.includes(undefined)
    ? 'matches none of the allowed forms'
    : `${describeNeed([...new Set(types)].join(' or '), input)}${describeInput(input)}`;
}

type SchemaNode = {
  def: {
    type: string;
    innerType?: SchemaNode;
    element?: SchemaNode;
    valueType?: SchemaNode;
    shape?: Record<string, SchemaNode>;
  };
};

function unwrap(schema: SchemaNode | undefined): SchemaNode | undefined {
  let at = schema;
  while (at?.def.innerType !== undefined) at = at.def.innerType;
  return at;
}

/** Returns the keys that a schema allows at this path, for `did you mean`. */
export function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at = unwrap(schema as unknown as SchemaNode);
  for (const step of path) {
    const def = at?.def;
    at = unwrap(def?.shape?.[String(step)] ?? def?.element ?? def?.valueType);
  }
  return Object.keys(at?.def.shape ?? {});
}
