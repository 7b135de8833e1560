// Looks orders up by their number. Old numbers were written with dashes and small letters.

const normalise = (id) => id.replaceAll(/[\s-]/g, '').toUpperCase();

/** @param {readonly { id: string }[]} orders */
export function makeFinder(orders) {
  return (id) => orders.find((order) => normalise(order.id) === normalise(id));
}
