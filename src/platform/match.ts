// Which route of a table a method and a path mean.
import { fault } from '../wire/errors.ts';
import type { Route, RouteTable } from '../wire/route.ts';

export type Matched = { name: string; route: Route; params: Record<string, string> };

/** Throws the fault that says there is none. */
export function makeMatch(table: RouteTable): (method: string, path: string) => Matched {
  const plain = listPlain(table);
  const root = buildTree(table);
  return (method, path) => plain.get(path)?.get(method) ?? matchPath(root, method, path);
}

type Node = {
  literal: Map<string, Node>;
  param: Node | undefined;
  paramName: string;
  routes: Map<string, { name: string; route: Route }>;
};
const node = (): Node => ({
  literal: new Map(),
  param: undefined,
  paramName: '',
  routes: new Map(),
});

const NO_PARAMS = {};

/** Routes without parameters, by path and method: most requests need no walk. */
function listPlain(table: RouteTable): Map<string, Map<string, Matched>> {
  const plain = new Map<string, Map<string, Matched>>();
  for (const [name, route] of Object.entries(table)) {
    if (route.path.includes('{')) continue;
    const methods = plain.get(route.path) ?? new Map<string, Matched>();
    plain.set(route.path, methods.set(route.method, { name, route, params: NO_PARAMS }));
  }
  return plain;
}

function buildTree(table: RouteTable): Node {
  const root = node();
  for (const [name, route] of Object.entries(table)) {
    let at = root;
    for (const segment of route.path.split('/').slice(1)) {
      const param = /^\{(\w+)\}$/.exec(segment)?.[1];
      if (param !== undefined) {
        at.param ??= node();
        at.param.paramName = param;
        at = at.param;
      } else {
        const next = at.literal.get(segment) ?? node();
        at.literal.set(segment, next);
        at = next;
      }
    }
    if (at.routes.has(route.method))
      throw new Error(`two routes are ${route.method} ${route.path}`);
    at.routes.set(route.method, { name, route });
  }
  return root;
}

function matchPath(root: Node, method: string, path: string): Matched {
  const params: Record<string, string> = {};
  let at: Node | undefined = root;
  for (const segment of path.split('/').slice(1)) {
    const next: Node | undefined = at.literal.get(segment) ?? at.param;
    if (next === undefined)
      throw fault('no_such_route', `there is no route ${method} ${path.slice(0, 200)}`);
    if (next === at.param) params[next.paramName] = decodeSegment(segment);
    at = next;
  }
  const found = at.routes.get(method);
  if (found !== undefined) return { ...found, params };
  if (at.routes.size === 0)
    throw fault('no_such_route', `there is no route ${method} ${path.slice(0, 200)}`);
  const allow = [...at.routes.keys()].join(', ');
  throw fault('method_not_allowed', `${path.slice(0, 200)} takes ${allow}, not ${method}`, {
    details: { allow },
  });
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (cause) {
    throw fault('bad_request', 'the path has a broken % escape', { cause });
  }
}
