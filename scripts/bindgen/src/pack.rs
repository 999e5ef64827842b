//! Makes a module smaller once it is compressed, and leaves what it does as it is: equal functions become one, and similar ones lie
//! beside each other. gzip looks back 32 KB, and what generic code is compiled into for one type and for the next is often further apart.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, FunctionSection, Module};
use wasmparser::{CodeSectionReader, FunctionSectionReader, Parser, Payload, TypeRef};

type Result<T> = std::result::Result<T, Error<Infallible>>;

/// The bytes of functions already placed that the next one is compared with: what gzip sees, less the next one itself.
const WINDOW: usize = 30_000;

/// Sequences of bytes that more functions than these have are too common to tell which are similar.
const MOST_FUNCTIONS: usize = 150;

/// The module, packed. It has no names: what else refers to functions by their numbers is renumbered.
pub fn pack(wasm: &[u8]) -> Result<Vec<u8>> {
    let mut wasm = wasm.to_vec();
    // Those that call functions that have become one may be equal themselves now.
    loop {
        let functions = Functions::read(&wasm)?;
        let merged = functions.merged();
        if merged.kept.len() == functions.bodies.len() {
            return functions.by_similarity().applied_to(&wasm);
        }
        wasm = merged.applied_to(&wasm)?;
    }
}

struct Functions<'a> {
    imported: u32,
    types: Vec<u32>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> Functions<'a> {
    fn read(wasm: &'a [u8]) -> Result<Self> {
        let mut functions = Self { imported: 0, types: Vec::new(), bodies: Vec::new() };
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let is_function = matches!(import?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_));
                        functions.imported += u32::from(is_function);
                    }
                }
                Payload::FunctionSection(types) => {
                    functions.types = types.into_iter().collect::<std::result::Result<_, _>>()?;
                }
                Payload::CodeSectionEntry(body) => functions.bodies.push(body.as_bytes()),
                _ => {}
            }
        }
        Ok(functions)
    }

    /// The first of each set of equal functions stands for all of it.
    fn merged(&self) -> Renumbered {
        let mut firsts = HashMap::new();
        let mut renumbered = Renumbered { numbers: (0..self.imported).collect(), kept: Vec::new() };
        for (at, function) in self.types.iter().zip(&self.bodies).enumerate() {
            let next = self.imported + renumbered.kept.len() as u32;
            let number = *firsts.entry(function).or_insert(next);
            if number == next {
                renumbered.kept.push(at);
            }
            renumbered.numbers.push(number);
        }
        renumbered
    }

    /// The largest first, and then always the one that has most in common with those just before it, measured against its length.
    fn by_similarity(&self) -> Renumbered {
        let mut by_size: Vec<usize> = (0..self.bodies.len()).collect();
        by_size.sort_by_key(|&at| Reverse(self.bodies[at].len()));
        let mut by_size = by_size.into_iter();
        let mut unplaced: Vec<usize> = (0..self.bodies.len()).collect();
        let mut window = Window::new(&self.bodies);
        let mut order = Vec::with_capacity(self.bodies.len());
        while let Some(next) =
            window.most_like(&unplaced).or_else(|| by_size.find(|at| unplaced.binary_search(at).is_ok()))
        {
            unplaced.retain(|&at| at != next);
            order.push(next);
            window.enter(next);
        }

        let mut numbers: Vec<u32> = (0..self.imported).chain(self.types.iter().map(|_| 0)).collect();
        for (number, &at) in (self.imported..).zip(&order) {
            numbers[self.imported as usize + at] = number;
        }
        Renumbered { numbers, kept: order }
    }
}

/// The functions placed last, and what those that are not placed yet have in common with them.
struct Window<'a> {
    bodies: &'a [&'a [u8]],
    /// By function: its sequences of eight bytes that others have, too, by their numbers.
    sequences: Vec<Vec<usize>>,
    /// By sequence: the functions that have it.
    functions: Vec<Vec<usize>>,
    /// By sequence: in how many functions of the window it is.
    seen: Vec<u32>,
    /// By function: how many of its sequences are in the window.
    common: Vec<u32>,
    placed: VecDeque<usize>,
    bytes: usize,
}

impl<'a> Window<'a> {
    fn new(bodies: &'a [&'a [u8]]) -> Self {
        let mut numbers = HashMap::new();
        let mut functions: Vec<Vec<usize>> = Vec::new();
        let mut sequences = Vec::with_capacity(bodies.len());
        for (at, body) in bodies.iter().enumerate() {
            let mut own: Vec<&[u8]> = body.windows(8).collect();
            own.sort_unstable();
            own.dedup();
            let number = |sequence| {
                let number = *numbers.entry(sequence).or_insert(functions.len());
                functions.resize_with(functions.len().max(number + 1), Vec::new);
                functions[number].push(at);
                number
            };
            sequences.push(own.into_iter().map(number).collect::<Vec<_>>());
        }
        let tells = |number: &usize| (2..=MOST_FUNCTIONS).contains(&functions[*number].len());
        sequences.iter_mut().for_each(|own| own.retain(tells));
        let (seen, common) = (vec![0; functions.len()], vec![0; bodies.len()]);
        Self { bodies, sequences, functions, seen, common, placed: VecDeque::new(), bytes: 0 }
    }

    /// The first of those that are most like it, if any has something in common with it.
    fn most_like(&self, unplaced: &[usize]) -> Option<usize> {
        let likeness = |at: usize| f64::from(self.common[at]) / (self.bodies[at].len() as f64 + 20.0).sqrt();
        let found = unplaced.iter().copied().filter(|&at| self.common[at] > 0);
        found.rev().max_by(|&one, &other| likeness(one).total_cmp(&likeness(other)))
    }

    fn enter(&mut self, function: usize) {
        self.placed.push_back(function);
        self.bytes += self.bodies[function].len();
        for &sequence in &self.sequences[function] {
            self.seen[sequence] += 1;
            if self.seen[sequence] == 1 {
                self.functions[sequence].iter().for_each(|&at| self.common[at] += 1);
            }
        }
        while self.bytes > WINDOW && self.placed.len() > 1 {
            self.leave();
        }
    }

    fn leave(&mut self) {
        let Some(function) = self.placed.pop_front() else { return };
        self.bytes -= self.bodies[function].len();
        for &sequence in &self.sequences[function] {
            self.seen[sequence] -= 1;
            if self.seen[sequence] == 0 {
                self.functions[sequence].iter().for_each(|&at| self.common[at] -= 1);
            }
        }
    }
}

/// The module with other functions than it had: those kept, by their old places and in their new order, and the new number of each.
struct Renumbered {
    numbers: Vec<u32>,
    kept: Vec<usize>,
}

impl Renumbered {
    fn applied_to(mut self, wasm: &[u8]) -> Result<Vec<u8>> {
        let mut module = Module::new();
        self.parse_core_module(&mut module, Parser::new(0), wasm)?;
        Ok(module.finish())
    }
}

impl Reencode for Renumbered {
    type Error = Infallible;

    fn function_index(&mut self, number: u32) -> Result<u32> {
        Ok(self.numbers[number as usize])
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<()> {
        let types = section.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        for &at in &self.kept {
            functions.function(types[at]);
        }
        Ok(())
    }

    fn parse_code_section(&mut self, code: &mut CodeSection, section: CodeSectionReader<'_>) -> Result<()> {
        let bodies = section.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        for at in self.kept.clone() {
            utils::parse_function_body(self, code, bodies[at].clone())?;
        }
        Ok(())
    }
}
