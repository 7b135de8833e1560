// Tools in a namespace have a name of their own inside it; elsewhere the two names are joined.

export function joinNamespace(namespace: string | undefined, tool: string): string {
  return namespace === undefined || namespace === '' ? tool : `${namespace}__${tool}`;
}
