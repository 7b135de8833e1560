// docs/openapi.json: the routes people and runs may call, as OpenAPI 3.1. Routes that only daemons
// call are left out: they are not reachable through the one port.
import assert from 'node:assert/strict';
import { readRole } from '../../src/wire/route.ts';
import { type Contract, follow, type JsonSchema, listRefs, type NamedRoute } from './contract.ts';

const isPublic = ({ route }: NamedRoute): boolean =>
  route.callers.some((caller) => caller === 'operator' || caller === 'run');

function parameters(named: NamedRoute, schemas: Contract['schemas']): JsonSchema[] {
  const found: JsonSchema[] = [];
  for (const place of ['params', 'query'] as const) {
    const schema = named[place] === undefined ? {} : follow(named[place], schemas);
    const required = (schema.required ?? []) as string[];
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      found.push({
        name,
        in: place === 'params' ? 'path' : 'query',
        required: place === 'params' || required.includes(name),
        schema: field,
      });
    }
  }
  if (named.route.creates) found.push({ $ref: '#/components/parameters/IdempotencyKey' });
  return found;
}

function operation(named: NamedRoute, schemas: Contract['schemas']): JsonSchema {
  const stream = named.route.streams ? { 'text/event-stream': { schema: { type: 'string' } } } : {};
  const given = parameters(named, schemas);
  return {
    operationId: `${named.daemon}.${named.name}`,
    tags: [named.daemon],
    'x-callers': named.route.callers,
    ...(named.route.callers.includes('operator') && { 'x-role': readRole(named.route) }),
    ...(given.length > 0 && { parameters: given }),
    ...(named.body && {
      requestBody: { required: true, content: { 'application/json': { schema: named.body } } },
    }),
    responses: {
      200: {
        description: 'done',
        content: { 'application/json': { schema: named.output }, ...stream },
      },
      default: named.route.dialect
        ? { description: `an error as ${named.route.dialect} writes them` }
        : { $ref: '#/components/responses/Fault' },
    },
  };
}

/** The schemas that the given document parts refer to, and those these refer to. */
function reachable(from: unknown, schemas: Contract['schemas']): Contract['schemas'] {
  const names = new Set<string>();
  const visit = (schema: unknown): void => {
    for (const name of listRefs(schema)) {
      if (names.has(name)) continue;
      names.add(name);
      visit(schemas[name]);
    }
  };
  visit(from);
  return Object.fromEntries([...names].sort().map((name) => [name, schemas[name]!]));
}

const faultSchema = (codes: readonly string[]): JsonSchema => ({
  type: 'object',
  properties: {
    error: {
      type: 'object',
      properties: {
        code: { type: 'string', enum: codes },
        message: { type: 'string' },
        hint: { type: 'string' },
        retry: { type: 'boolean' },
        retry_after_ms: { type: 'number' },
        details: { type: 'object' },
      },
      required: ['code', 'message', 'hint', 'retry'],
    },
  },
  required: ['error'],
});

type Options = { contract: Contract; version: string; faultCodes: readonly string[] };

export function writeOpenapi({ contract, version, faultCodes }: Options): string {
  const paths: Record<string, Record<string, JsonSchema>> = {};
  for (const named of contract.routes.filter(isPublic)) {
    const { path } = named.route;
    const method = named.route.method.toLowerCase();
    const others = paths[path] ?? {};
    assert(!(method in others), `two daemons serve ${method} ${path} on the one port`);
    paths[path] = { ...others, [method]: operation(named, contract.schemas) };
  }
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'agentd',
      version,
      description: 'Servers refuse unknown fields; clients ignore them.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: 'http://127.0.0.1', description: 'a Unix socket, or the port of --port' }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      parameters: {
        IdempotencyKey: {
          name: 'Idempotency-Key',
          in: 'header',
          description: 'The same key returns the same response and creates nothing twice.',
          schema: { type: 'string' },
        },
      },
      responses: {
        Fault: {
          description: 'an error; see errors.md',
          content: { 'application/json': { schema: faultSchema(faultCodes) } },
        },
      },
      schemas: reachable(paths, contract.schemas),
    },
  };
  return `${JSON.stringify(document, null, 1)}\n`;
}
