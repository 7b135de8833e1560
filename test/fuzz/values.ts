// Generates values for a schema: valid ones, and the same ones distorted.
import { z } from 'zod';
import type { Seeded } from '../support/seeded.ts';

type Schema = {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  items?: Schema;
  pattern?: string;
  minLength?: number;
  minItems?: number;
  minimum?: number;
  $ref?: string;
};

const known = new WeakMap<z.ZodType, Schema>();

function schemaOf(type: z.ZodType): Schema {
  let schema = known.get(type);
  if (schema === undefined) {
    schema = z.toJSONSchema(type, { io: 'input', unrepresentable: 'any' }) as Schema;
    known.set(type, schema);
  }
  return schema;
}

const WORDS = [
  '',
  'a',
  'worker',
  'nobody',
  'default',
  'agent:worker',
  'person:ann',
  'text',
  'task.finish',
  '../../etc/passwd',
  "'; DROP TABLE tasks; --",
  '{{goal}}',
  '%s%n',
  '\u0000',
  '\ud800',
  '💥',
  'artifact://artifact_0',
  '2026-03-01T09:00:00Z',
  'null',
  '-1',
  '1e999',
  'ﬁ',
  'İ',
  '\u202e',
];
const NUMBERS = [0, -0, 1, -1, 1.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308, 1e-320, 4_294_967_296];
const KEYS = [
  '__proto__',
  'constructor',
  'toString',
  '',
  'x',
  'id',
  'goal',
  'length',
  '\u0000',
  'é',
];

const idLike = (rnd: Seeded, kind: string): string =>
  `${kind}_${Array.from({ length: 26 }, () => rnd.pick([...'0123456789abcdefghjkmnpqrstvwxyz'])).join('')}`;

function textFor(rnd: Seeded, { pattern, minLength = 0 }: Schema): string {
  const kind = /^\^([a-z]+)_/.exec(pattern ?? '')?.[1];
  if (kind !== undefined && rnd.chance(0.9)) return idLike(rnd, kind);
  if (pattern?.startsWith('^[a-z]') === true) return rnd.pick(['worker', 'nobody', 'a-1']);
  if (pattern?.includes('T\\d\\d') === true) return '2026-03-01T09:00:00Z';
  if (pattern?.startsWith('^(agent|person') === true) return rnd.pick(['agent:nobody', 'person:a']);
  const text = rnd.pick(WORDS);
  return text.length >= minLength ? text : text.padEnd(minLength, 'x');
}

function objectFor(rnd: Seeded, root: Schema, schema: Schema, depth: number): unknown {
  const value: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(schema.properties ?? {}))
    if (schema.required?.includes(key) === true || rnd.chance(0.3))
      value[key] = fromSchema(rnd, root, inner, depth + 1);
  if (typeof schema.additionalProperties === 'object')
    for (let i = rnd.int(3); i > 0; i--)
      value[rnd.pick(['a', 'b', 'text'])] = fromSchema(
        rnd,
        root,
        schema.additionalProperties,
        depth + 1,
      );
  return value;
}

function fromSchema(rnd: Seeded, root: Schema, schema: Schema, depth: number): unknown {
  if (depth > 12) return null;
  if (schema.$ref !== undefined) {
    const at = schema.$ref.split('/').slice(1);
    const found = at.reduce<unknown>(
      (node, step) => (node as Record<string, unknown>)?.[step],
      root,
    );
    return fromSchema(rnd, root, (found as Schema | undefined) ?? root, depth + 1);
  }
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return rnd.pick(schema.enum);
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices !== undefined) return fromSchema(rnd, root, rnd.pick(choices), depth + 1);
  const type = Array.isArray(schema.type) ? rnd.pick(schema.type) : schema.type;
  if (type === 'object') return objectFor(rnd, root, schema, depth);
  if (type === 'array') {
    const length = (schema.minItems ?? 0) + rnd.int(3);
    return Array.from({ length }, () => fromSchema(rnd, root, schema.items ?? {}, depth + 1));
  }
  if (type === 'string') return textFor(rnd, schema);
  if (type === 'integer') return Math.max(schema.minimum ?? 0, rnd.int(100));
  if (type === 'number') return rnd.pick([0, 0.5, 1, 60]);
  if (type === 'boolean') return rnd.chance(0.5);
  if (type === 'null') return null;
  return anything(rnd, depth);
}

export function valueFor(rnd: Seeded, type: z.ZodType): unknown {
  const schema = schemaOf(type);
  return fromSchema(rnd, schema, schema, 0);
}

/** Generates arbitrary JSON. */
export function anything(rnd: Seeded, depth = 0): unknown {
  switch (rnd.int(depth > 4 ? 5 : 8)) {
    case 0:
      return null;
    case 1:
      return rnd.chance(0.5);
    case 2:
      return rnd.pick(NUMBERS);
    case 3:
      return rnd.pick(WORDS);
    case 4:
      return 'x'.repeat(rnd.pick([1, 65, 300, 5_000]));
    case 5:
      return Array.from({ length: rnd.int(4) }, () => anything(rnd, depth + 1));
    case 6:
      return nested(rnd.pick([3, 20, 63, 70]));
    default:
      return Object.fromEntries(
        Array.from({ length: rnd.int(4) }, () => [rnd.pick(KEYS), anything(rnd, depth + 1)]),
      );
  }
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = i % 2 === 0 ? [value] : { a: value };
  return value;
}

/** Changes one position of the value: another type, a member more or less, deep nesting. */
export function distort(rnd: Seeded, value: unknown): unknown {
  if (rnd.chance(0.15) || value === null || typeof value !== 'object') return anything(rnd);
  if (Array.isArray(value)) {
    if (value.length === 0 || rnd.chance(0.3)) return [...value, anything(rnd)];
    const at = rnd.int(value.length);
    return value.map((inner, i) => (i === at ? distort(rnd, inner) : inner));
  }
  const keys = Object.keys(value);
  const copy: Record<string, unknown> = { ...value };
  if (keys.length === 0 || rnd.chance(0.25))
    return Object.defineProperty(copy, rnd.pick(KEYS), { value: anything(rnd), enumerable: true });
  const key = rnd.pick(keys);
  if (rnd.chance(0.25)) delete copy[key];
  else copy[key] = distort(rnd, copy[key]);
  return copy;
}
