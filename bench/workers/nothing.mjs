// Stands for what is bound and not used while payments are measured.
export default { fetch: () => new Response(null, { status: 404 }) };
