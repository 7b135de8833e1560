// Names the home that an agent keeps from task to task, where its manifest says so. It is a place
// with marks, like the home that a person's programs share.
import { sha256Hex } from '../../platform/json.ts';
import type { DeclaredAgent } from './manifests/read-manifest.ts';
import { readWorkspaceMode, type TaskRow } from './store/rows.ts';

/** Programs of people have an agent's name in its place, which has no space. */
export function findKeptHome({ name, manifest }: DeclaredAgent): string | undefined {
  if (manifest.spec.home !== 'kept') return undefined;
  return `home_${sha256Hex(JSON.stringify(['home of', name])).slice(0, 24)}`;
}

/** In a layer over a person's directory, what a run writes may belong to a user of that tree. */
export const findHomeFor = (spec: DeclaredAgent, task: TaskRow): string | undefined =>
  readWorkspaceMode(task) === 'layer' ? undefined : findKeptHome(spec);
