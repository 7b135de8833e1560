// Builds the path of a request from a route's path, its parameters and its query.

export function fillPath(path: string, params: Record<string, unknown> | undefined): string {
  if (params === undefined) return path;
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])));
}

/** Leaves out undefined values. */
export function writeQuery(query: Record<string, unknown> | undefined): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined) result[name] = String(value);
  return result;
}

export function withQuery(path: string, query: Record<string, string>): string {
  for (const _ in query) return `${path}?${new URLSearchParams(query).toString()}`;
  return path;
}
