// Reads the contract out of src/wire: its route tables and named schemas, and each schema as JSON
// Schema. The pages decide how it is shown.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import type { Route, RouteTable } from '../../src/wire/route.ts';

export type JsonSchema = Record<string, unknown>;

export type NamedRoute = {
  daemon: string;
  name: string;
  route: Route;
  params?: JsonSchema;
  query?: JsonSchema;
  body?: JsonSchema;
  output: JsonSchema;
};

export type Contract = { routes: NamedRoute[]; schemas: Record<string, JsonSchema> };

const refPrefix = '#/components/schemas/';
export const refTo = (name: string): string => `${refPrefix}${name}`;
export const nameOfRef = (ref: string): string => ref.slice(refPrefix.length);

const isSchema = (value: unknown): value is z.ZodType => value instanceof z.ZodType;

const pascalCase = (name: string): string =>
  name.replace(/(?:^|[-_.])([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase());

type Ids = Map<z.ZodType, string>;

/** Names every exported schema. */
async function readSchemas(folder: string): Promise<Ids> {
  const exported: { file: string; name: string; schema: z.ZodType }[] = [];
  const files = readdirSync(folder).filter((file) => /^[^.]+\.ts$/.test(file));
  for (const file of files.sort()) {
    const values = await import(pathToFileURL(join(folder, file)).href);
    for (const [name, value] of Object.entries(values))
      if (isSchema(value)) exported.push({ file: file.slice(0, -3), name, schema: value });
  }
  const ids: Ids = new Map();
  for (const { file, name, schema } of exported) {
    if (ids.has(schema)) continue;
    const clashes = exported.some((other) => other.name === name && other.schema !== schema);
    ids.set(schema, clashes ? pascalCase(`${file}-${name}`) : name);
  }
  return ids;
}

/**
 * Every named schema in one direction. Responses may grow: clients ignore unknown fields.
 */
function schemasFor(io: 'input' | 'output', ids: Ids): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [schema, id] of ids) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, {
    io,
    unrepresentable: 'any',
    uri: refTo,
    override: ({ jsonSchema }) => {
      if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
    },
  });
  for (const schema of Object.values(schemas)) {
    delete schema.$schema;
    delete schema.$id;
  }
  return schemas as Record<string, JsonSchema>;
}

export function listRefs(schema: unknown): string[] {
  const text = JSON.stringify(schema) ?? '';
  return [...text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map(([, id]) => id!);
}

/** Names whose two directions differ, in themselves or in what they refer to. */
function findDiffering(input: Record<string, JsonSchema>, output: Record<string, JsonSchema>) {
  const same = (id: string) => JSON.stringify(input[id]) === JSON.stringify(output[id]);
  const differing = new Set(Object.keys(input).filter((id) => !same(id)));
  for (let before = -1; before !== differing.size; ) {
    before = differing.size;
    for (const id of Object.keys(input)) {
      if (listRefs(input[id]).some((ref) => differing.has(ref))) differing.add(id);
    }
  }
  return differing;
}

function renameRefs<T>(schema: T, rename: (id: string) => string): T {
  const text = JSON.stringify(schema).replace(
    /"\$ref":"#\/components\/schemas\/([^"]+)"/g,
    (_, id: string) => `"$ref":"${refTo(rename(id))}"`,
  );
  return JSON.parse(text) as T;
}

/** Schemas that a route uses in place have a name only while they are converted. */
const inPlace = (daemon: string, name: string, part: string): string =>
  `in-place/${daemon}/${name}/${part}`;

export async function readContract(root: string): Promise<Contract> {
  const ids = await readSchemas(join(root, 'src/wire'));
  const contracts = pathToFileURL(join(root, 'src/wire/contracts.ts')).href;
  const { CONTRACTS } = (await import(contracts)) as { CONTRACTS: Record<string, RouteTable> };
  const rows = Object.entries(CONTRACTS)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([daemon, table]) =>
      Object.entries(table).map(([name, route]) => ({ daemon, name, route })),
    );
  for (const { daemon, name, route } of rows) {
    for (const part of ['params', 'query', 'body', 'output'] as const) {
      const schema = route[part];
      if (schema !== undefined && !ids.has(schema)) ids.set(schema, inPlace(daemon, name, part));
    }
  }
  const input = schemasFor('input', ids);
  const output = schemasFor('output', ids);
  const differing = findDiffering(input, output);
  const asInput = (id: string) => (differing.has(id) ? `${id}Input` : id);

  const schemas: Record<string, JsonSchema> = {};
  const use = (id: string, io: 'input' | 'output'): JsonSchema => {
    const rename = io === 'input' ? asInput : (same: string) => same;
    const schema = renameRefs((io === 'input' ? input : output)[id]!, rename);
    const inner = listRefs((io === 'input' ? input : output)[id]);
    for (const ref of inner) if (!(rename(ref) in schemas)) keep(ref, io);
    return schema;
  };
  const keep = (id: string, io: 'input' | 'output'): JsonSchema => {
    const name = io === 'input' ? asInput(id) : id;
    // Reserved before it is filled, because a schema may refer to itself.
    if (!(name in schemas)) {
      schemas[name] = {};
      schemas[name] = use(id, io);
    }
    return { $ref: refTo(name) };
  };
  const convert = (schema: z.ZodType, io: 'input' | 'output'): JsonSchema => {
    const id = ids.get(schema)!;
    return id.startsWith('in-place/') ? use(id, io) : keep(id, io);
  };
  const named = rows.map(({ daemon, name, route }): NamedRoute => {
    const { params, query, body } = route;
    return {
      daemon,
      name,
      route,
      ...(params && { params: convert(params, 'input') }),
      ...(query && { query: convert(query, 'input') }),
      ...(body && { body: convert(body, 'input') }),
      output: convert(route.output, 'output'),
    };
  });
  return { routes: named, schemas };
}

/** The schema itself where a route names one, so that its fields can be listed. */
export function follow(schema: JsonSchema, schemas: Contract['schemas']): JsonSchema {
  const ref = schema.$ref;
  return typeof ref === 'string' ? follow(schemas[nameOfRef(ref)] ?? {}, schemas) : schema;
}
