// What is wrong with a value, in our own words: a schema's own message wins, and where it has none
// the library would say "expected string, received undefined" to people and models.
import type { z } from 'zod';

type RawIssue = z.core.$ZodRawIssue;

const THINGS: Readonly<Record<string, string>> = {
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

const thing = (expected: string): string => THINGS[expected] ?? expected;
const must = (what: string, input: unknown): string =>
  input === undefined ? `is missing; must be ${what}` : `must be ${what}`;
const given = (input: unknown): string =>
  input === undefined || Number.isNaN(input) ? '' : `, not ${kindOf(input)}`;

function kindOf(input: unknown): string {
  if (input === null) return 'null';
  if (typeof input === 'boolean') return String(input);
  if (Array.isArray(input)) return 'a list';
  return thing(typeof input);
}

/** For the library's `error` setting. Nothing where callers have words of their own. */
export function plainWords(issue: RawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type': {
      const isFraction = issue.expected === 'int' && typeof issue.input === 'number';
      const but = isFraction ? '' : given(issue.input);
      return `${must(thing(issue.expected), issue.input)}${but}`;
    }
    case 'invalid_value':
      return must(oneOf(issue.values.map(String)), issue.input);
    case 'too_small': {
      const bound = issue.inclusive === false ? 'more than' : 'at least';
      return amount({ of: issue.origin, bound, limit: Number(issue.minimum) });
    }
    case 'too_big': {
      const bound = issue.inclusive === false ? 'less than' : 'at most';
      return amount({ of: issue.origin, bound, limit: Number(issue.maximum) });
    }
    case 'invalid_format':
      return FORMATS[issue.format] === undefined
        ? 'does not have the form that is wanted'
        : `must be ${FORMATS[issue.format]}`;
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`;
    case 'invalid_key':
      return `the key ${issue.issues[0]?.message ?? 'is not allowed'}`;
    case 'invalid_union':
      return union(issue);
    default:
      return undefined;
  }
}

const oneOf = (values: readonly string[]): string =>
  values.length === 1 ? String(values[0]) : `one of: ${values.join(', ')}`;

function amount({ of, bound, limit }: { of: string; bound: string; limit: number }): string {
  if (['number', 'int', 'bigint'].includes(of)) return `must be ${bound} ${limit}`;
  if (bound === 'at least' && limit === 1) return 'must not be empty';
  const unit = of === 'string' ? 'character' : of === 'array' ? 'item' : 'key';
  return `must have ${bound} ${limit} ${unit}${limit === 1 ? '' : 's'}`;
}

function union(issue: Extract<RawIssue, { code: 'invalid_union' }>): string {
  const { errors, input } = issue;
  if (Array.isArray(issue.options)) return `must be ${oneOf(issue.options.map(String))}`;
  const types = errors.map(([first, ...more]) =>
    first?.code === 'invalid_type' && first.path.length === 0 && more.length === 0
      ? thing(first.expected)
      : undefined,
  );
  return types.includes(undefined)
    ? 'fits none of the forms that are allowed'
    : `${must([...new Set(types)].join(' or '), input)}${given(input)}`;
}

type Inner = {
  def: {
    type: string;
    innerType?: Inner;
    element?: Inner;
    valueType?: Inner;
    shape?: Record<string, Inner>;
  };
};

function unwrap(schema: Inner | undefined): Inner | undefined {
  let at = schema;
  while (at?.def.innerType !== undefined) at = at.def.innerType;
  return at;
}

/** The keys that a schema knows at this place, for `did you mean`. */
export function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at = unwrap(schema as unknown as Inner);
  for (const step of path) {
    const def = at?.def;
    at = unwrap(def?.shape?.[String(step)] ?? def?.element ?? def?.valueType);
  }
  return Object.keys(at?.def.shape ?? {});
}
