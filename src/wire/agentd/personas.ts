// Views of personas: the layers that are there, and what an agent's persona is composed of.
import * as z from 'zod';
import { AgentName, FileProblem, Sha256 } from '../primitives.ts';
import { route, routes } from '../route.ts';

export const PersonaSource = z.enum(['package', 'site', 'operator', 'manifest']);
export type PersonaSource = z.infer<typeof PersonaSource>;

const Name = z.string().regex(/^[a-z][a-z0-9_-]{0,62}$/, 'must be a name such as coder');

export const PersonaLayerKind = z.enum(['base', 'groups', 'roles', 'scopes', 'agents', 'inline']);
export type PersonaLayerKind = z.infer<typeof PersonaLayerKind>;

/** One file of a layer, or the manifest's own text. */
export const PersonaLayer = z.object({
  layer: z.string(),
  source: PersonaSource,
  file: z.string(),
  sha256: Sha256,
});
export type PersonaLayer = z.infer<typeof PersonaLayer>;

export const PersonaView = z.object({
  /** base, groups/NAME, roles/NAME, scopes/NAME or agents/NAME. */
  ref: z.string(),
  kind: PersonaLayerKind,
  name: z.string(),
  role: z.string().nullable(),
  purpose: z.string().nullable(),
  tools: z.array(z.string()),
  extends: z.array(z.string()),
  sources: z.array(PersonaSource),
  /** The agents that are composed with it. */
  agents: z.array(AgentName),
});
export type PersonaView = z.infer<typeof PersonaView>;

/** A null text: the file has changed since, and the change is not in force. */
const InForce = PersonaLayer.extend({ text: z.string().nullable() });

export const personaRoutes = routes({
  listPersonas: route({
    method: 'GET',
    path: '/v1/personas',
    callers: ['operator'],
    output: z.object({ personas: z.array(PersonaView), problems: z.array(FileProblem) }),
  }),
  getPersona: route({
    method: 'GET',
    path: '/v1/personas/{kind}/{name}',
    callers: ['operator'],
    params: z.strictObject({ kind: PersonaLayerKind, name: Name }),
    output: z.object({ persona: PersonaView, layers: z.array(InForce) }),
  }),
  getAgentPersona: route({
    method: 'GET',
    path: '/v1/agents/{name}/persona',
    callers: ['operator'],
    params: z.strictObject({ name: AgentName }),
    output: z.object({
      agent: AgentName,
      role: z.string().nullable(),
      purpose: z.string().nullable(),
      text: z.string(),
      sha256: Sha256,
      layers: z.array(InForce),
    }),
  }),
});
