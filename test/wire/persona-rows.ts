// The rows of agentd's routes for personas.
import { rows } from './row.ts';

export const personaRows = rows({
  listPersonas: { good: async () => ({}) },
  getPersona: { good: async () => ({ params: { kind: 'roles', name: 'coder' } }) },
  getAgentPersona: { good: async () => ({ params: { name: 'worker' } }) },
});
