// Hashes a list of changes to a directory. Whoever has seen the hash has seen exactly what would be
// written; marks of refusal and conflict are left out, because they are decided again.
import type { LayerChangeView } from '../wire/sandboxd/layers.ts';
import { hashJson } from './json.ts';

export function hashChanges(changes: readonly LayerChangeView[]): string {
  return hashJson(changes.map(({ path, kind, before, after }) => [path, kind, before, after]));
}
