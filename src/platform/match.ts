// Finds the route of a table that matches a method and a path.
import { fault } from '../wire/errors.ts';
import type { Route, RouteTable } from '../wire/route.ts';

export type RouteMatch = { name: string; route: Route; params: Record<string, string> };

/** The returned function throws no_such_route or method_not_allowed. */
export function makeMatcher(table: RouteTable): (method: string, path: string) => RouteMatch {
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
const makeNode = (): Node => ({
  literal: new Map(),
  param: undefined,
  paramName: '',
  routes: new Map(),
});

const NO_PARAMS = {};

/** Routes without parameters, by path and method: most requests need no walk of the tree. */
function listPlain(table: RouteTable): Map<string, Map<string, RouteMatch>> {
  const plain = new Map<string, Map<string, RouteMatch>>();
  for (const [name, route] of Object.entries(table)) {
    if (route.path.includes('{')) continue;
    const methods = plain.get(route.path) ?? new Map<string, RouteMatch>();
    plain.set(route.path, methods.set(route.method, { name, route, params: NO_PARAMS }));
  }
  return plain;
}

function buildTree(table: RouteTable): Node {
  const root = makeNode();
  for (const [name, route] of Object.entries(table)) {
    let at = root;
    for (const segment of route.path.split('/').slice(1)) {
      const param = /^\{(\w+)\}$/.exec(segment)?.[1];
      if (param !== undefined) {
        at.param ??= makeNode();
        at.param.paramName = param;
        at = at.param;
      } else {
        const next = at.literal.get(segment) ?? makeNode();
        at.literal.set(segment, next);
        at = next;
      }
    }
    if (at.routes.has(route.method))
      throw new Error(`duplicate route ${route.method} ${route.path}`);
    at.routes.set(route.method, { name, route });
  }
  return root;
}

function matchPath(root: Node, method: string, path: string): RouteMatch {
  const params: Record<string, string> = {};
  const notFound = () => fault('no_such_route', `route ${method} ${path.slice(0, 200)} not found`);
  let at = root;
  for (const segment of path.split('/').slice(1)) {
    const next: Node | undefined = at.literal.get(segment) ?? at.param;
    if (next === undefined) throw notFound();
    if (next === at.param) params[next.paramName] = decodeSegment(segment);
    at = next;
  }
  const found = at.routes.get(method);
  if (found !== undefined) return { ...found, params };
  if (at.routes.size === 0) throw notFound();
  const allow = [...at.routes.keys()].join(', ');
  throw fault('method_not_allowed', `${path.slice(0, 200)} accepts ${allow}, not ${method}`, {
    details: { allow },
  });
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (cause) {
    throw fault('bad_request', 'the path has an invalid % escape', { cause });
  }
}
